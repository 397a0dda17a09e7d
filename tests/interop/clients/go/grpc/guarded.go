package main

import (
	"context"
	"fmt"
	"os"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

// guarded: `guarded ENDPOINT TOPIC GROUP CLOSED USER PASSWORD`. Sends and consumes with access keys; prints what came of sending to a
// topic that the user may not send to, and with another password.
func guarded() {
	closed, user, password := os.Args[5], os.Args[6], os.Args[7]
	right := &client.Config{
		Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{AccessKey: user, AccessSecret: password},
	}
	wrong := &client.Config{Endpoint: endpoint, Credentials: &credentials.SessionCredentials{AccessKey: user, AccessSecret: password + "!"}}
	must(sentWith(right, topic, 5))
	consumer := receivingOf(right, topic, client.SUB_ALL)
	seen := map[string]bool{}
	take := func(message *client.MessageView) bool {
		seen[string(message.GetBody())] = true
		return true
	}
	drain(consumer, 5, take)
	fmt.Printf("right\t%d\n", len(seen))
	fmt.Printf("closed\t%v\n", sentWith(right, closed, 1))
	fmt.Printf("wrong\t%v\n", sentWith(wrong, topic, 1))
}

// sentWith sends so many messages with the keys of a configuration. The producer is built with the topic that it may send to: with
// another one its Start would wait for ever, as the server refuses the settings that name it.
func sentWith(config *client.Config, to string, count int) (failure error) {
	defer func() {
		if reason := recover(); reason != nil {
			failure = reason.(error)
		}
	}()
	producer := producing(config, topic)
	defer producer.GracefulStop()
	for number := 0; number < count; number++ {
		limited, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		got(producer.Send(limited, &client.Message{Topic: to, Body: []byte(fmt.Sprint("m", number))}))
	}
	return nil
}
