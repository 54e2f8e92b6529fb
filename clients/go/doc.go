// Package askd is the client of askd, a durable question service: programs ask people things through it, people and
// services answer, and everyone interested watches what is pending.
//
//	client, err := askd.NewClient("127.0.0.1:50051", askd.WithKey(key))
//	...
//	defer client.Close()
//	err = client.RunTurn(ctx, "deploy", "", func(turn *askd.Turn) error {
//		ask, err := turn.Ask(ctx, askd.Text("Which port?"))
//		...
//	})
//
// Messages are those of package askdv1, generated from the contract. The methods of [Client] are what programs use day
// by day; its fields Asks, Sessions and Keys are the generated clients of every method there is. All of them send the
// credential, fill in what makes a retry safe, try again while the server is unavailable, and fail with an [*Error]. The
// generated method of the same name says with which codes.
package askd
