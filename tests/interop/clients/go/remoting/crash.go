package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

// crash runs two scenes at a time, over a kill of the node.
func crash() {
	must(frame.Play(map[string]frame.Scene{
		"stream":       func(arrived func()) error { return stream(topic+"-stream", arrived) },
		"transactions": func(arrived func()) error { return transactions(topic+"-transactions", arrived) },
	}))
}

func member(of string, seen *bag) {
	joined("cg_"+of, of, "*", seen.take)
}

// stream sends and consumes all the time: what was acknowledged is consumed.
func stream(of string, arrived func()) error {
	made, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+of), producer.WithSendMsgTimeout(3*time.Second),
		producer.WithInstanceName("p_"+of),
	)
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	send := func(body string) error {
		_, err := made.SendSync(context.Background(), primitive.NewMessage(of, []byte(body)))
		return err
	}
	if err = send("m0"); err != nil {
		return err
	}
	seen := &bag{}
	member(of, seen)
	return frame.Stream(arrived, 1, send, seen.all)
}

// patient leaves everything undecided until the node is back.
type patient struct{ decider }

func (p *patient) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	if !frame.IsBack() {
		return primitive.UnknowState
	}
	return p.decider.CheckLocalTransaction(message)
}

// half sends a half message. A name server may not know yet the topic that was just made: nothing was sent then.
func half(made rocketmq.TransactionProducer, message *primitive.Message) error {
	end := time.Now().Add(frame.Lateness)
	for {
		_, err := made.SendMessageInTransaction(context.Background(), message)
		if err == nil || !strings.Contains(err.Error(), "route info not found") || time.Now().After(end) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// transactions are decided before the kill, or asked about after it. The producer has an instance of its own: producers that
// share one share a connection, and of these the client lets only the group of the first one answer questions.
func transactions(of string, arrived func()) error {
	judge := &patient{decider{asked: map[string]int{}}}
	made, err := rocketmq.NewTransactionProducer(
		judge, producer.WithNsResolver(resolver()), producer.WithGroupName("tg_"+of), producer.WithSendMsgTimeout(10*time.Second),
		producer.WithInstanceName("t_"+of),
	)
	if err != nil {
		return err
	}
	if err = made.Start(); err != nil {
		return err
	}
	var wanted []string
	for number := 0; number < 4; number++ {
		for _, kind := range []string{"commit", "rollback", "open"} {
			body := fmt.Sprint(kind, number)
			if err = half(made, primitive.NewMessage(of, []byte(body))); err != nil {
				return err
			}
			if kind == "commit" || kind == "open" && number%2 == 0 {
				wanted = append(wanted, body)
			}
		}
	}
	time.Sleep(time.Second)
	arrived()
	frame.AwaitBack()
	seen := &bag{}
	member(of, seen)
	if err = frame.Within("all that commits", frame.Lateness, func() bool { return len(seen.all()) >= len(wanted) }); err != nil {
		return fmt.Errorf("%w: seen %v, asked %v", err, seen.all(), judge.asked)
	}
	time.Sleep(2 * time.Second)
	return same(seen.all(), wanted)
}
