package main

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"headgate/interop/frame"
)

// request asks three questions and wants each one's own answer.
func request() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	failed := &bag{}
	c, err := subscribed("*", false, func(each *primitive.MessageExt) consumer.ConsumeResult {
		answer, err := consumer.CreateReplyMessage(each, nil)
		if err == nil {
			// CreateReplyMessage of v2.1.2 loses the body that it is given.
			answer.Body = []byte("re " + string(each.Body))
			_, err = p.SendSync(context.Background(), answer)
		}
		if err != nil {
			failed.add(err.Error())
		}
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	ask := func(body string) (string, error) {
		answer, err := p.Request(context.Background(), 3*time.Second, message("TagA", "k", body))
		if err != nil {
			return "", fmt.Errorf("%w; replies failed: %v", err, failed.all())
		}
		return string(answer.Body), nil
	}
	// This client tells brokers who it is every 30 s, and not before its first request.
	err = frame.Within("the broker knows the requester", 60*time.Second, func() bool {
		_, err := ask("early")
		return err == nil
	})
	if err != nil {
		return err
	}
	for i := 0; i < 3; i++ {
		body := fmt.Sprint("q", i)
		answer, err := ask(body)
		if err != nil {
			return err
		}
		if answer != "re "+body {
			return fmt.Errorf("%q is no answer to %q", answer, body)
		}
	}
	return nil
}
