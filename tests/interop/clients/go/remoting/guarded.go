package main

import (
	"context"
	"fmt"
	"os"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// guarded: `guarded NAMESERVER TOPIC BROKER CLOSED USER PASSWORD`. Sends and consumes with access keys; prints what came of sending to
// a topic that the user may not send to, and with another password.
func guarded() {
	closed, user, password := os.Args[5], os.Args[6], os.Args[7]
	right := primitive.Credentials{AccessKey: user, SecretKey: password}
	wrong := primitive.Credentials{AccessKey: user, SecretKey: password + "!"}
	must(sentWith(right, "right", topic, 5))
	seen := &bag{}
	c := joined("readers_"+topic, topic, "*", seen.take, consumer.WithCredentials(right))
	defer c.Shutdown()
	seen.await("all consumed", 5)
	must(same(seen.all(), []string{"m0", "m1", "m2", "m3", "m4"}))
	fmt.Printf("right\t%d\n", len(seen.all()))
	fmt.Printf("closed\t%v\n", sentWith(right, "closed", closed, 1))
	fmt.Printf("wrong\t%v\n", sentWith(wrong, "wrong", topic, 1))
}

// sentWith sends messages; the name is that of a client of its own: clients of one name share their credentials.
func sentWith(keys primitive.Credentials, name, to string, count int) (failure error) {
	p := started(producer.WithGroupName("pg_"+name), producer.WithInstanceName(name), producer.WithCredentials(keys))
	defer p.Shutdown()
	for number := 0; number < count && failure == nil; number++ {
		_, failure = p.SendSync(context.Background(), primitive.NewMessage(to, []byte(fmt.Sprint("m", number))))
	}
	return failure
}
