package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const (
	before   = 200
	after    = 200
	lateness = 120 * time.Second
)

// isBack is true when the node has been killed and is there again.
var isBack atomic.Bool

// crash runs two scenes at a time, says READY when both can stand a kill of the node, and waits for a line.
func crash() error {
	var scenes, ready sync.WaitGroup
	back := make(chan struct{})
	failed := &bag{}
	for name, scene := range map[string]func(string, func(), chan struct{}) error{"stream": stream, "transactions": transactions} {
		name, scene := name, scene
		scenes.Add(1)
		ready.Add(1)
		go func() {
			defer scenes.Done()
			var once sync.Once
			arrived := func() { once.Do(ready.Done) }
			err := scene(topic+"-"+name, arrived, back)
			arrived()
			if err != nil {
				failed.add(fmt.Sprintf("FAILED %s\n%v", name, err))
				return
			}
			fmt.Println("OK", name)
		}()
	}
	ready.Wait()
	fmt.Println("READY")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	isBack.Store(true)
	close(back)
	scenes.Wait()
	if len(failed.all()) > 0 {
		fmt.Println(strings.Join(failed.all(), "\n"))
		return errors.New("of the scenes")
	}
	return nil
}

func member(of string, seen *bag) (rocketmq.PushConsumer, error) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+of),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithInstance(of),
	)
	if err != nil {
		return nil, err
	}
	everything := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	err = made.Subscribe(of, everything, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			seen.add(string(each.Body))
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// stream sends and consumes all the time: what was acknowledged is consumed.
func stream(of string, arrived func(), _ chan struct{}) error {
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
	if _, err = member(of, seen); err != nil {
		return err
	}
	acknowledged := map[string]bool{"m0": true}
	refused, since := 0, 0
	for number := 1; since < after; number++ {
		back := isBack.Load()
		if err := send(fmt.Sprint("m", number)); err != nil {
			refused++
			if refused > 10_000 {
				return fmt.Errorf("the producer does not come back: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		} else {
			acknowledged[fmt.Sprint("m", number)] = true
			if back {
				since++
			}
		}
		if len(acknowledged) >= before {
			arrived()
		}
		if !back {
			time.Sleep(5 * time.Millisecond)
		}
	}
	missing := func() int {
		found := map[string]bool{}
		for _, body := range seen.all() {
			found[body] = true
		}
		count := 0
		for body := range acknowledged {
			if !found[body] {
				count++
			}
		}
		return count
	}
	if err = until("all that was acknowledged", lateness, func() bool { return missing() == 0 }); err != nil {
		return fmt.Errorf("%w: %d of %d are missing", err, missing(), len(acknowledged))
	}
	fmt.Println("go:", len(acknowledged), "acknowledged,", refused, "sends failed,", len(seen.all()), "deliveries")
	return nil
}

// patient leaves everything undecided until the node is back.
type patient struct{ decider }

func (p *patient) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	if !isBack.Load() {
		return primitive.UnknowState
	}
	return p.decider.CheckLocalTransaction(message)
}

// transactions are decided before the kill, or asked about after it. The producer has an instance of its own: producers that
// share one share a connection, and of these the client lets only the group of the first one answer questions.
func transactions(of string, arrived func(), back chan struct{}) error {
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
			if _, err = made.SendMessageInTransaction(context.Background(), primitive.NewMessage(of, []byte(body))); err != nil {
				return err
			}
			if kind == "commit" || kind == "open" && number%2 == 0 {
				wanted = append(wanted, body)
			}
		}
	}
	time.Sleep(time.Second)
	arrived()
	<-back
	seen := &bag{}
	if _, err = member(of, seen); err != nil {
		return err
	}
	if err = until("all that commits", lateness, func() bool { return len(seen.all()) >= len(wanted) }); err != nil {
		return fmt.Errorf("%w: seen %v, asked %v", err, seen.all(), judge.asked)
	}
	time.Sleep(2 * time.Second)
	return same(seen.all(), wanted)
}
