package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

// later sends with a delay level, and with the properties of timers, for which this client has no methods: never early.
func later() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	var lock sync.Mutex
	came := map[string]time.Time{}
	c, err := subscribed("*", false, func(each *primitive.MessageExt) consumer.ConsumeResult {
		lock.Lock()
		defer lock.Unlock()
		came[string(each.Body)] = time.Now()
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	due := map[string]time.Time{}
	send := func(body string, delay time.Duration, change func(*primitive.Message)) error {
		each := message("TagA", "k", body)
		change(each)
		due[body] = time.Now().Add(delay)
		_, err := p.SendSync(context.Background(), each)
		return err
	}
	for _, err := range []error{
		send("level", time.Second, func(each *primitive.Message) { each.WithDelayTimeLevel(1) }),
		send("seconds", 2*time.Second, func(each *primitive.Message) { each.WithProperty("TIMER_DELAY_SEC", "2") }),
		send("milliseconds", 1500*time.Millisecond, func(each *primitive.Message) { each.WithProperty("TIMER_DELAY_MS", "1500") }),
		send("instant", 3*time.Second, func(each *primitive.Message) {
			each.WithProperty("TIMER_DELIVER_MS", fmt.Sprint(time.Now().Add(3*time.Second).UnixMilli()))
		}),
	} {
		if err != nil {
			return err
		}
	}
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(came)
	}
	if err = frame.Within("all that is due", 60*time.Second, func() bool { return count() >= len(due) }); err != nil {
		return err
	}
	for body, at := range due {
		// The instant is cut to milliseconds.
		if came[body].Before(at.Add(-time.Millisecond)) {
			return fmt.Errorf("%s came %v early", body, at.Sub(came[body]))
		}
	}
	return nil
}

// pull polls and acknowledges: each once, and a second consumer of the group begins where the first one ended.
func pull() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	wanted := []string{}
	for number := 0; number < 20; number++ {
		tag := []string{"TagA", "TagB"}[number%2]
		if tag == "TagA" {
			wanted = append(wanted, fmt.Sprint("m", number))
		}
		if _, err := p.SendSync(context.Background(), message(tag, "k", fmt.Sprint("m", number))); err != nil {
			return err
		}
	}
	seen, err := polled("TagA", len(wanted))
	if err != nil {
		return err
	}
	if err = same(seen, wanted); err != nil {
		return err
	}
	if _, err = p.SendSync(context.Background(), message("TagA", "k", "late")); err != nil {
		return err
	}
	seen, err = polled("TagA", 1)
	if err != nil {
		return err
	}
	return same(seen, []string{"late"})
}

// polled receives until so many have come and then for a second more, and ends the consumer, which tells its positions.
func polled(expression string, enough int) ([]string, error) {
	c, err := rocketmq.NewPullConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return nil, err
	}
	if err = c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}); err != nil {
		return nil, err
	}
	if err = c.Start(); err != nil {
		return nil, err
	}
	seen := &bag{}
	end := time.Now().Add(60 * time.Second)
	for last := 0; time.Now().Before(end); {
		request, err := c.Poll(context.Background(), time.Second)
		if err == nil {
			for _, each := range request.GetMsgList() {
				seen.add(string(each.Body))
			}
			c.ACK(context.Background(), request, consumer.ConsumeSuccess)
		} else if last = len(seen.all()); last >= enough {
			break
		}
	}
	if err = c.PersistOffset(context.Background(), topic); err != nil {
		return nil, err
	}
	return seen.all(), c.Shutdown()
}

// sql subscribes by an expression over properties.
func sql() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	seen := &bag{}
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		return err
	}
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: "weight BETWEEN 5 AND 8 AND colour IS NOT NULL"}
	err = c.Subscribe(topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			seen.add(string(each.Body))
		}
		return consumer.ConsumeSuccess, nil
	})
	if err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	defer c.Shutdown()
	for number := 0; number < 12; number++ {
		each := message("TagA", "k", fmt.Sprint("m", number))
		each.WithProperty("weight", fmt.Sprint(number))
		if number != 6 {
			each.WithProperty("colour", "red")
		}
		if _, err = p.SendSync(context.Background(), each); err != nil {
			return err
		}
	}
	if err = frame.Within("what the filter wants", 60*time.Second, func() bool { return len(seen.all()) >= 3 }); err != nil {
		return err
	}
	time.Sleep(time.Second)
	return same(seen.all(), []string{"m5", "m7", "m8"})
}

// trace has a producer and a consumer write what they do to the trace topic, where it is found again.
func trace() error {
	if err := created(); err != nil {
		return err
	}
	found := &bag{}
	reader, err := joined("reader_"+topic, "RMQ_SYS_TRACE_TOPIC", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		if text := string(each.Body); strings.Contains(text, topic) {
			found.add(text)
		}
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer reader.Shutdown()
	config := func() *primitive.TraceConfig {
		return &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver()}
	}
	c, err := joined("cg_"+topic, topic, func(_ context.Context, _ *primitive.MessageExt) consumer.ConsumeResult {
		return consumer.ConsumeSuccess
	}, consumer.WithTrace(config()))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	p, err := rocketmq.NewProducer(producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+topic), producer.WithTrace(config()))
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	result, err := p.SendSync(context.Background(), message("TagA", "k", "traced"))
	if err != nil {
		return err
	}
	return frame.Within("traces of sending and of consuming", 60*time.Second, func() bool {
		text := strings.Join(found.all(), "\n")
		return strings.Contains(text, "Pub\x01") && strings.Contains(text, "SubAfter\x01") && strings.Contains(text, result.MsgID)
	})
}

// spaces has the same names in two namespaces and in none: what is sent in one is seen there alone.
func spaces() error {
	names := []string{"", "shop", "yard"}
	seen := map[string]*bag{}
	for _, space := range names {
		space := space
		p, err := rocketmq.NewProducer(
			producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+topic), producer.WithNamespace(space), producer.WithInstanceName("p"+space),
		)
		if err != nil {
			return err
		}
		if err = p.Start(); err != nil {
			return err
		}
		defer p.Shutdown()
		for number := 0; number < 4; number++ {
			if _, err = p.SendSync(context.Background(), message("TagA", "k", fmt.Sprint(space, number))); err != nil {
				return err
			}
		}
		seen[space] = &bag{}
		c, err := joined("cg_"+topic, topic, func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
			// This client leaves the namespace on the topic that it shows.
			seen[space].add(strings.TrimPrefix(each.Topic, space+"%") + " " + string(each.Body))
			return consumer.ConsumeSuccess
		}, consumer.WithNamespace(space))
		if err != nil {
			return err
		}
		defer c.Shutdown()
	}
	for _, space := range names {
		wanted := []string{}
		for number := 0; number < 4; number++ {
			wanted = append(wanted, fmt.Sprint(topic, " ", space, number))
		}
		if err := frame.Within("all of namespace "+space, 60*time.Second, func() bool { return len(seen[space].all()) >= len(wanted) }); err != nil {
			return fmt.Errorf("%w: %v", err, seen[space].all())
		}
		if err := same(seen[space].all(), wanted); err != nil {
			return err
		}
	}
	return nil
}
