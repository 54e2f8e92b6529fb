package askd_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"askd.example/go"
	"askd.example/go/askdv1"
)

var (
	ctx    context.Context
	client *askd.Client
)

func ExampleClient_RunTurn() {
	err := client.RunTurn(ctx, "deploy", "", func(turn *askd.Turn) error {
		answered, err := turn.Ask(ctx, askd.Text("Which port?"))
		if errors.Is(err, askd.CodeAskRejected) {
			return errors.New("nobody wants to say")
		} else if err != nil {
			return err
		}
		fmt.Println(answered.GetAnswers()[0].GetText())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_Answer() {
	pending := []askdv1.AskStatus{askdv1.AskStatus_ASK_STATUS_PENDING}
	for ask, err := range client.List(ctx, &askdv1.ListAsksRequest{Statuses: pending}) {
		if err != nil {
			log.Fatal(err)
		}
		_, err := client.Answer(ctx, ask.GetId(), askd.Select("yes"))
		var refusal *askd.Error
		if errors.As(err, &refusal) && refusal.Code == askd.CodeAskAlreadyResolved {
			fmt.Println(refusal.Metadata["resolved_by"], "was faster")
		}
	}
}

func ExampleClient_Watch() {
	var last *int64 // where an earlier watch ended, nil for what is pending
	for update, err := range client.Watch(ctx, &askdv1.WatchAsksRequest{AfterRevision: last}) {
		if err != nil {
			log.Fatal(err)
		}
		if update.Event != nil {
			fmt.Println(update.Event.GetType(), update.Event.GetAsk().GetId())
		}
		last = update.Revision
	}
}
