package main

import (
	"context"
	"fmt"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"

	"headgate/interop/frame"
)

const retries = 1

// joined starts a member of its own instance, with whatever else a scenario wants of it.
func joined(group, of string, handle func(context.Context, *primitive.MessageExt) consumer.ConsumeResult, more ...consumer.Option) (rocketmq.PushConsumer, error) {
	options := append([]consumer.Option{
		consumer.WithNsResolver(resolver()), consumer.WithGroupName(group),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
	}, more...)
	made, err := rocketmq.NewPushConsumer(options...)
	if err != nil {
		return nil, err
	}
	everything := consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}
	err = made.Subscribe(of, everything, func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		return handle(ctx, messages[0]), nil
	})
	if err != nil {
		return nil, err
	}
	return made, made.Start()
}

// dead refuses a message until the member's limit, and finds it in the dead-letter topic.
func dead() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	attempts, letters := &bag{}, &bag{}
	c, err := joined("cg_"+topic, topic, func(ctx context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		attempts.add(fmt.Sprint(each.ReconsumeTimes))
		if chosen, known := primitive.GetConcurrentlyCtx(ctx); known {
			chosen.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater
	}, consumer.WithMaxReconsumeTimes(retries))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	if _, err = p.SendSync(context.Background(), message("TagA", "k", "poison")); err != nil {
		return err
	}
	if err = frame.Within("the last attempt", 60*time.Second, func() bool { return len(attempts.all()) > retries }); err != nil {
		return fmt.Errorf("%w, seen %v", err, attempts.all())
	}
	time.Sleep(2 * time.Second)
	undertaker, err := joined("undertaker_"+topic, "%DLQ%cg_"+topic, func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		letters.add(string(each.Body) + " of " + each.GetProperty("DLQ_ORIGIN_TOPIC"))
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer undertaker.Shutdown()
	if err = frame.Within("the dead letter", 60*time.Second, func() bool { return len(letters.all()) > 0 }); err != nil {
		return err
	}
	if err = same(letters.all(), []string{"poison of " + topic}); err != nil {
		return err
	}
	return same(attempts.all(), []string{"0", "1"})
}

// broadcast: two members, and each gets everything.
func broadcast() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	seen := []*bag{{}, {}}
	for _, mine := range seen {
		mine := mine
		c, err := joined("cg_"+topic, topic, func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
			mine.add(string(each.Body))
			return consumer.ConsumeSuccess
		}, consumer.WithConsumerModel(consumer.BroadCasting))
		if err != nil {
			return err
		}
		defer c.Shutdown()
	}
	wanted := []string{}
	for number := 0; number < 20; number++ {
		wanted = append(wanted, fmt.Sprint("m", number))
		if _, err := p.SendSync(context.Background(), message("TagA", "k", fmt.Sprint("m", number))); err != nil {
			return err
		}
	}
	for _, mine := range seen {
		if err := frame.Within("everything", 60*time.Second, func() bool { return len(mine.all()) >= len(wanted) }); err != nil {
			return err
		}
		if err := same(mine.all(), append([]string{}, wanted...)); err != nil {
			return err
		}
	}
	return nil
}
