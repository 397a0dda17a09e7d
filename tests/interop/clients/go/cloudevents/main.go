// Events with the Go SDK of CloudEvents: `program send URL` or `program receive`.
//
// send      posts one event in binary and one in structured mode, and prints whether each was accepted
// receive   listens on loopback; prints its port, then each event as one line of JSON with its data as text
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

// The SDK does not percent-encode header fields, so the subject of an event in binary mode has nothing to be encoded.
func made(id, subject string) cloudevents.Event {
	event := cloudevents.NewEvent()
	event.SetID(id)
	event.SetSource("/go")
	event.SetType("com.example.sent")
	event.SetSubject(subject)
	event.SetTime(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	event.SetExtension("count", 7)
	event.SetExtension("partitionkey", "p")
	if err := event.SetData(cloudevents.ApplicationJSON, map[string]string{"from": "Go", "text": "é"}); err != nil {
		log.Fatal(err)
	}
	return event
}

func send(url string) {
	client, err := cloudevents.NewClientHTTP()
	if err != nil {
		log.Fatal(err)
	}
	target := cloudevents.ContextWithTarget(context.Background(), url)
	fmt.Println(cloudevents.IsACK(client.Send(cloudevents.WithEncodingBinary(target), made("go-binary", "a/b"))))
	fmt.Println(cloudevents.IsACK(client.Send(cloudevents.WithEncodingStructured(target), made("go-structured", "größe 100%"))))
}

func receive() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		event, err := cloudevents.NewEventFromHTTPRequest(request)
		line := map[string]string{}
		if err != nil {
			line["error"] = err.Error()
			answer.WriteHeader(http.StatusBadRequest)
		} else {
			line = map[string]string{
				"id": event.ID(), "source": event.Source(), "type": event.Type(), "subject": event.Subject(),
				"count": fmt.Sprint(event.Extensions()["count"]), "data": string(event.Data()),
			}
			answer.WriteHeader(http.StatusNoContent)
		}
		text, _ := json.Marshal(line)
		fmt.Println(string(text))
	})))
}

func main() {
	if os.Args[1] == "send" {
		send(os.Args[2])
	} else {
		receive()
	}
}
