package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

// guarded: `guarded NAMESERVER TOPIC BROKER CLOSED USER PASSWORD`. Sends and consumes with access keys; prints what came of sending to
// a topic that the user may not send to, and with another password.
func guarded() error {
	closed, user, password := os.Args[5], os.Args[6], os.Args[7]
	right := primitive.Credentials{AccessKey: user, SecretKey: password}
	wrong := primitive.Credentials{AccessKey: user, SecretKey: password + "!"}
	if err := sentWith(right, "right", topic, 5); err != nil {
		return err
	}
	seen := &bag{}
	c, err := joined("readers_"+topic, topic, func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		seen.add(string(each.Body))
		return consumer.ConsumeSuccess
	}, consumer.WithCredentials(right))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if err = frame.Within("all consumed", 60*time.Second, func() bool { return len(seen.all()) >= 5 }); err != nil {
		return err
	}
	if err = same(seen.all(), []string{"m0", "m1", "m2", "m3", "m4"}); err != nil {
		return err
	}
	fmt.Printf("right\t%d\n", len(seen.all()))
	fmt.Printf("closed\t%v\n", sentWith(right, "closed", closed, 1))
	fmt.Printf("wrong\t%v\n", sentWith(wrong, "wrong", topic, 1))
	return nil
}

// sentWith sends so many messages; the name is that of a client of its own: clients of one name share their credentials.
func sentWith(keys primitive.Credentials, name, to string, count int) error {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+name), producer.WithInstanceName(name), producer.WithRetry(0),
		producer.WithCredentials(keys),
	)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	for number := 0; number < count; number++ {
		if _, err = p.SendSync(context.Background(), primitive.NewMessage(to, []byte(fmt.Sprint("m", number)))); err != nil {
			return err
		}
	}
	return nil
}
