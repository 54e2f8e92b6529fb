package askd

import (
	"google.golang.org/protobuf/types/known/structpb"

	"askd.example/go/askdv1"
)

// Text is a question that is answered with free text.
func Text(prompt string) *askdv1.Question {
	return &askdv1.Question{
		Prompt: []*askdv1.ContentPart{{Part: &askdv1.ContentPart_Text{Text: prompt}}},
		Kind:   &askdv1.Question_Text{Text: &askdv1.TextQuestion{}},
	}
}

// Choice is a question that is answered by choosing one of the options. What else may be answered is set on its
// GetChoice(): Multiple, AllowCustom, AllowNotes.
func Choice(prompt string, options ...*askdv1.ChoiceOption) *askdv1.Question {
	question := Text(prompt)
	question.Kind = &askdv1.Question_Choice{Choice: &askdv1.ChoiceQuestion{Options: options}}
	return question
}

// Option is an option of a choice: what an answer names it by, what the person reads, and what the asker gets back when
// it is selected. Any other JSON is set as its Value.
func Option[Value bool | float64 | int | string](id, label string, value Value) *askdv1.ChoiceOption {
	return &askdv1.ChoiceOption{Id: id, Label: label, Value: jsonOf(value)}
}

func jsonOf(value any) *structpb.Value {
	switch value := value.(type) {
	case bool:
		return structpb.NewBoolValue(value)
	case float64:
		return structpb.NewNumberValue(value)
	case int:
		return structpb.NewNumberValue(float64(value))
	default:
		return structpb.NewStringValue(value.(string))
	}
}

// Say answers a text question.
func Say(text string) *askdv1.AnswerSubmission {
	return &askdv1.AnswerSubmission{Kind: &askdv1.AnswerSubmission_Text{Text: text}}
}

// Select answers a choice question with the ids of its options. Custom and Notes are set on its GetChoice().
func Select(ids ...string) *askdv1.AnswerSubmission {
	choice := &askdv1.ChoiceSubmission{SelectedIds: ids}
	return &askdv1.AnswerSubmission{Kind: &askdv1.AnswerSubmission_Choice{Choice: choice}}
}

// ResolvedBy is the verified principal that resolved an ask, "user:ID" or "key:ID"; "" while it is pending, and where
// no principal did, as when it expired.
func ResolvedBy(ask *askdv1.AskState) string {
	switch by := ask.GetResolvedBy().(type) {
	case *askdv1.AskState_ResolvedByUserId:
		return "user:" + by.ResolvedByUserId
	case *askdv1.AskState_ResolvedByApiKeyId:
		return "key:" + by.ResolvedByApiKeyId
	default:
		return ""
	}
}
