package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"

	"headgate/interop/frame"
)

const (
	largest     = 4 * 1024 * 1024
	resetOffset = 222
)

// limit: 4 MiB pass, and a byte more is refused by the broker with its code.
func limit() error {
	if err := created(); err != nil {
		return err
	}
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+topic), producer.WithRetry(0),
		producer.WithSendMsgTimeout(15*time.Second), producer.WithCompressMsgBodyOverHowmuch(2*largest),
	)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	if result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, make([]byte, largest))); err != nil || result.Status != primitive.SendOK {
		return fmt.Errorf("4 MiB: %v %v", result, err)
	}
	result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, make([]byte, largest+1)))
	if err == nil || !strings.Contains(err.Error(), "CODE: 13,") {
		return fmt.Errorf("a byte more: %v %v", result, err)
	}
	return nil
}

// byHand pulls each queue from its beginning to its end, three messages at a time.
func byHand() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	wanted := []string{}
	for number := 0; number < 40; number++ {
		wanted = append(wanted, fmt.Sprint("m", number))
		if _, err := p.SendSync(context.Background(), message("TagA", "k", fmt.Sprint("m", number))); err != nil {
			return err
		}
	}
	tool, err := admin.NewAdmin(admin.WithResolver(resolver()))
	if err != nil {
		return err
	}
	defer tool.Close()
	queues, err := tool.FetchPublishMessageQueues(context.Background(), topic)
	if err != nil {
		return err
	}
	// It subscribes to another topic: of its own subscription it would take queues away from who pulls by hand.
	c, err := rocketmq.NewPullConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
	)
	if err != nil {
		return err
	}
	if err = c.Subscribe("TBW102", consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}); err != nil {
		return err
	}
	if err = c.Start(); err != nil {
		return err
	}
	defer c.Shutdown()
	seen := []string{}
	for _, queue := range queues {
		for offset := int64(0); ; {
			result, err := c.PullFrom(context.Background(), queue, offset, 3)
			if err != nil {
				return err
			}
			for _, each := range result.GetMessageExts() {
				seen = append(seen, string(each.Body))
			}
			// At the end of a queue a pull waits for 20 s.
			if offset = result.NextBeginOffset; result.Status != primitive.PullFound || offset >= result.MaxOffset {
				break
			}
		}
	}
	return same(seen, wanted)
}

// reset goes back to an instant while a member consumes: what was sent since comes again, once.
func reset() error {
	if err := created(); err != nil {
		return err
	}
	p, err := started()
	if err != nil {
		return err
	}
	defer p.Shutdown()
	seen := &bag{}
	c, err := joined("cg_"+topic, topic, func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		seen.add(string(each.Body))
		return consumer.ConsumeSuccess
	})
	if err != nil {
		return err
	}
	defer c.Shutdown()
	wanted := []string{}
	var middle int64
	for _, round := range []string{"before", "since"} {
		for number := 0; number < 10; number++ {
			body := fmt.Sprint(round, number)
			wanted = append(wanted, body)
			if round == "since" {
				wanted = append(wanted, body)
			}
			if _, err := p.SendSync(context.Background(), message("TagA", "k", body)); err != nil {
				return err
			}
		}
		enough := map[string]int{"before": 10, "since": 20}[round]
		if err = frame.Within("what was sent "+round, 60*time.Second, func() bool { return len(seen.all()) >= enough }); err != nil {
			return err
		}
		time.Sleep(2 * time.Millisecond)
		if round == "before" {
			middle = time.Now().UnixMilli()
		}
	}
	if err = askedToReset(middle); err != nil {
		return err
	}
	// This client rests for ten seconds before it begins where it is told to.
	if err = frame.Within("what came since, again", 90*time.Second, func() bool { return len(seen.all()) >= len(wanted) }); err != nil {
		return fmt.Errorf("%w: %v", err, seen.all())
	}
	time.Sleep(time.Second)
	return same(seen.all(), wanted)
}

// askedToReset sends what `mqadmin resetOffsetByTime` sends: the client has no call for it.
func askedToReset(instant int64) error {
	connection, err := net.Dial("tcp", os.Args[4])
	if err != nil {
		return err
	}
	defer connection.Close()
	fields := map[string]string{"topic": topic, "group": "cg_" + topic, "timestamp": fmt.Sprint(instant), "isForce": "true"}
	header, err := json.Marshal(map[string]any{
		"code": resetOffset, "language": "GO", "version": 0, "opaque": 1, "flag": 0, "extFields": fields,
	})
	if err != nil {
		return err
	}
	lengths := make([]byte, 8)
	binary.BigEndian.PutUint32(lengths, uint32(4+len(header)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(header)))
	if _, err = connection.Write(append(lengths, header...)); err != nil {
		return err
	}
	if _, err = io.ReadFull(connection, lengths); err != nil {
		return err
	}
	answer := make([]byte, binary.BigEndian.Uint32(lengths[4:]))
	if _, err = io.ReadFull(connection, answer); err != nil {
		return err
	}
	told := struct {
		Code   int
		Remark string
	}{}
	if err = json.Unmarshal(answer, &told); err != nil || told.Code != 0 {
		return fmt.Errorf("the reset was refused: %s %w", answer, err)
	}
	return nil
}

// deadOrderly has a member in order that suspends its queue until its limit: then the followers come, and a dead letter is found.
func deadOrderly() error {
	if err := created(); err != nil {
		return err
	}
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(resolver()), producer.WithGroupName("pg_"+topic), producer.WithQueueSelector(producer.NewHashQueueSelector()),
	)
	if err != nil {
		return err
	}
	if err = p.Start(); err != nil {
		return err
	}
	defer p.Shutdown()
	for _, body := range []string{"poison", "m0", "m1"} {
		each := message("TagA", "k", body)
		each.WithShardingKey("lane")
		if _, err = p.SendSync(context.Background(), each); err != nil {
			return err
		}
	}
	var lock sync.Mutex
	seen := []string{}
	c, err := joined("cg_"+topic, topic, func(ctx context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		lock.Lock()
		defer lock.Unlock()
		seen = append(seen, fmt.Sprint(string(each.Body), " ", each.ReconsumeTimes))
		if chosen, known := primitive.GetOrderlyCtx(ctx); known {
			chosen.SuspendCurrentQueueTimeMillis = 200
		}
		if string(each.Body) == "poison" {
			return consumer.SuspendCurrentQueueAMoment
		}
		return consumer.ConsumeSuccess
	}, consumer.WithConsumerOrder(true), consumer.WithMaxReconsumeTimes(retries))
	if err != nil {
		return err
	}
	defer c.Shutdown()
	all := func() string {
		lock.Lock()
		defer lock.Unlock()
		return strings.Join(seen, ",")
	}
	if err = frame.Within("the followers", 60*time.Second, func() bool { return strings.Contains(all(), "m1 ") }); err != nil {
		return fmt.Errorf("%w: %s", err, all())
	}
	// It counts to one more than its limit in order.
	if all() != "poison 0,poison 1,poison 2,m0 0,m1 0" {
		return fmt.Errorf("seen %s", all())
	}
	letters := &bag{}
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
	return same(letters.all(), []string{"poison of " + topic})
}
