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

// later sends with a delay level, and with the properties of timers, for which this client has no methods: never early.
func later() {
	p := begun()
	defer p.Shutdown()
	var lock sync.Mutex
	came := map[string]time.Time{}
	c := joined("cg_"+topic, topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		lock.Lock()
		defer lock.Unlock()
		came[string(each.Body)] = time.Now()
		return consumer.ConsumeSuccess
	})
	defer c.Shutdown()
	due := map[string]time.Time{}
	send := func(body string, delay time.Duration, change func(*primitive.Message)) {
		each := message("TagA", "k", body)
		change(each)
		due[body] = time.Now().Add(delay)
		got(p.SendSync(context.Background(), each))
	}
	send("level", time.Second, func(each *primitive.Message) { each.WithDelayTimeLevel(1) })
	send("seconds", 2*time.Second, func(each *primitive.Message) { each.WithProperty("TIMER_DELAY_SEC", "2") })
	send("milliseconds", 1500*time.Millisecond, func(each *primitive.Message) { each.WithProperty("TIMER_DELAY_MS", "1500") })
	send("instant", 3*time.Second, func(each *primitive.Message) {
		each.WithProperty("TIMER_DELIVER_MS", fmt.Sprint(time.Now().Add(3*time.Second).UnixMilli()))
	})
	count := func() int {
		lock.Lock()
		defer lock.Unlock()
		return len(came)
	}
	must(frame.Within("all that is due", patience, func() bool { return count() >= len(due) }))
	for body, at := range due {
		// The instant is cut to milliseconds.
		if came[body].Before(at.Add(-time.Millisecond)) {
			panic(fmt.Errorf("%s came %v early", body, at.Sub(came[body])))
		}
	}
}

// pull polls and acknowledges: each once, and a second consumer of the group begins where the first one ended.
func pull() {
	p := begun()
	defer p.Shutdown()
	wanted := []string{}
	for number := 0; number < 20; number++ {
		tag := []string{"TagA", "TagB"}[number%2]
		if tag == "TagA" {
			wanted = append(wanted, fmt.Sprint("m", number))
		}
		got(p.SendSync(context.Background(), message(tag, "k", fmt.Sprint("m", number))))
	}
	seen := polled("TagA", len(wanted))
	must(same(seen, wanted))
	got(p.SendSync(context.Background(), message("TagA", "k", "late")))
	seen = polled("TagA", 1)
	must(same(seen, []string{"late"}))
}

// polled receives until so many have come and then for a second more, and ends the consumer, which tells its positions.
func polled(expression string, enough int) []string {
	c := got(rocketmq.NewPullConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	))
	must(c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: expression}))
	must(c.Start())
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
	must(c.PersistOffset(context.Background(), topic))
	must(c.Shutdown())
	return seen.all()
}

// sql subscribes by an expression over properties.
func sql() {
	p := begun()
	defer p.Shutdown()
	seen := &bag{}
	c := got(rocketmq.NewPushConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	))
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: "weight BETWEEN 5 AND 8 AND colour IS NOT NULL"}
	must(c.Subscribe(topic, selector, func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, each := range messages {
			seen.add(string(each.Body))
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(c.Start())
	defer c.Shutdown()
	for number := 0; number < 12; number++ {
		each := message("TagA", "k", fmt.Sprint("m", number))
		each.WithProperty("weight", fmt.Sprint(number))
		if number != 6 {
			each.WithProperty("colour", "red")
		}
		got(p.SendSync(context.Background(), each))
	}
	seen.await("what the filter wants", 3)
	time.Sleep(time.Second)
	must(same(seen.all(), []string{"m5", "m7", "m8"}))
}

// trace has a producer and a consumer write what they do to the trace topic, where it is found again.
func trace() {
	create()
	found := &bag{}
	reader := joined("reader_"+topic, "RMQ_SYS_TRACE_TOPIC", "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
		if text := string(each.Body); strings.Contains(text, topic) {
			found.add(text)
		}
		return consumer.ConsumeSuccess
	})
	defer reader.Shutdown()
	config := func() *primitive.TraceConfig {
		return &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver()}
	}
	c := joined("cg_"+topic, topic, "*", func(_ context.Context, _ *primitive.MessageExt) consumer.ConsumeResult {
		return consumer.ConsumeSuccess
	}, consumer.WithTrace(config()))
	defer c.Shutdown()
	p := started(producer.WithTrace(config()))
	defer p.Shutdown()
	result := got(p.SendSync(context.Background(), message("TagA", "k", "traced")))
	must(frame.Within("traces of sending and of consuming", patience, func() bool {
		text := strings.Join(found.all(), "\n")
		return strings.Contains(text, "Pub\x01") && strings.Contains(text, "SubAfter\x01") && strings.Contains(text, result.MsgID)
	}))
}

// spaces has the same names in two namespaces and in none: what is sent in one is seen there alone.
func spaces() {
	names := []string{"", "shop", "yard"}
	seen := map[string]*bag{}
	for _, space := range names {
		space := space
		p := started(producer.WithNamespace(space), producer.WithInstanceName("p"+space))
		defer p.Shutdown()
		for number := 0; number < 4; number++ {
			got(p.SendSync(context.Background(), message("TagA", "k", fmt.Sprint(space, number))))
		}
		seen[space] = &bag{}
		c := joined("cg_"+topic, topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
			// This client leaves the namespace on the topic that it shows.
			seen[space].add(strings.TrimPrefix(each.Topic, space+"%") + " " + string(each.Body))
			return consumer.ConsumeSuccess
		}, consumer.WithNamespace(space))
		defer c.Shutdown()
	}
	for _, space := range names {
		wanted := []string{}
		for number := 0; number < 4; number++ {
			wanted = append(wanted, fmt.Sprint(topic, " ", space, number))
		}
		seen[space].await("all of namespace "+space, len(wanted))
		must(same(seen[space].all(), wanted))
	}
}

const (
	largest     = 4 * 1024 * 1024
	resetOffset = 222
)

// limit: 4 MiB pass, and a byte more is refused by the broker with its code.
func limit() {
	p := begun(producer.WithCompressMsgBodyOverHowmuch(2 * largest))
	defer p.Shutdown()
	if result := got(p.SendSync(context.Background(), primitive.NewMessage(topic, make([]byte, largest)))); result.Status != primitive.SendOK {
		panic(result)
	}
	result, err := p.SendSync(context.Background(), primitive.NewMessage(topic, make([]byte, largest+1)))
	if err == nil || !strings.Contains(err.Error(), "CODE: 13,") {
		panic(fmt.Errorf("a byte more: %v %v", result, err))
	}
}

// byHand pulls each queue from its beginning to its end, three messages at a time.
func byHand() {
	p := begun()
	defer p.Shutdown()
	wanted := []string{}
	for number := 0; number < 40; number++ {
		wanted = append(wanted, fmt.Sprint("m", number))
		got(p.SendSync(context.Background(), message("TagA", "k", fmt.Sprint("m", number))))
	}
	tool := got(admin.NewAdmin(admin.WithResolver(resolver())))
	defer tool.Close()
	queues := got(tool.FetchPublishMessageQueues(context.Background(), topic))
	// It subscribes to another topic: of its own subscription it would take queues away from who pulls by hand.
	c := got(rocketmq.NewPullConsumer(
		consumer.WithNsResolver(resolver()), consumer.WithGroupName("cg_"+topic), consumer.WithInstance(fmt.Sprint(time.Now().UnixNano())),
	))
	must(c.Subscribe("TBW102", consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	must(c.Start())
	defer c.Shutdown()
	seen := []string{}
	for _, queue := range queues {
		for offset := int64(0); ; {
			result := got(c.PullFrom(context.Background(), queue, offset, 3))
			for _, each := range result.GetMessageExts() {
				seen = append(seen, string(each.Body))
			}
			// At the end of a queue a pull waits for 20 s.
			if offset = result.NextBeginOffset; result.Status != primitive.PullFound || offset >= result.MaxOffset {
				break
			}
		}
	}
	must(same(seen, wanted))
}

// reset goes back to an instant while a member consumes: what was sent since comes again, once.
func reset() {
	p := begun()
	defer p.Shutdown()
	seen := &bag{}
	c := joined("cg_"+topic, topic, "*", seen.take)
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
			got(p.SendSync(context.Background(), message("TagA", "k", body)))
		}
		enough := map[string]int{"before": 10, "since": 20}[round]
		must(frame.Within("what was sent "+round, patience, func() bool { return len(seen.all()) >= enough }))
		time.Sleep(2 * time.Millisecond)
		if round == "before" {
			middle = time.Now().UnixMilli()
		}
	}
	askToReset(middle)
	// This client rests for ten seconds before it begins where it is told to.
	seen.await("what came since, again", len(wanted))
	time.Sleep(time.Second)
	must(same(seen.all(), wanted))
}

// askToReset sends what `mqadmin resetOffsetByTime` sends: the client has no call for it.
func askToReset(instant int64) {
	connection := got(net.Dial("tcp", os.Args[4]))
	defer connection.Close()
	fields := map[string]string{"topic": topic, "group": "cg_" + topic, "timestamp": fmt.Sprint(instant), "isForce": "true"}
	header := got(json.Marshal(map[string]any{
		"code": resetOffset, "language": "GO", "version": 0, "opaque": 1, "flag": 0, "extFields": fields,
	}))
	lengths := make([]byte, 8)
	binary.BigEndian.PutUint32(lengths, uint32(4+len(header)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(header)))
	got(connection.Write(append(lengths, header...)))
	got(io.ReadFull(connection, lengths))
	answer := make([]byte, binary.BigEndian.Uint32(lengths[4:]))
	got(io.ReadFull(connection, answer))
	told := struct {
		Code   int
		Remark string
	}{}
	must(json.Unmarshal(answer, &told))
	if told.Code != 0 {
		panic(fmt.Errorf("the reset was refused: %s", answer))
	}
}

// request asks three questions and wants each one's own answer.
func request() {
	p := begun()
	defer p.Shutdown()
	failed := &bag{}
	c := joined("cg_"+topic, topic, "*", func(_ context.Context, each *primitive.MessageExt) consumer.ConsumeResult {
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
	defer c.Shutdown()
	ask := func(body string) (string, error) {
		answer, err := p.Request(context.Background(), 3*time.Second, message("TagA", "k", body))
		if err != nil {
			return "", fmt.Errorf("%w; replies failed: %v", err, failed.all())
		}
		return string(answer.Body), nil
	}
	// This client tells brokers who it is every 30 s, and not before its first request.
	must(frame.Within("the broker knows the requester", patience, func() bool {
		_, err := ask("early")
		return err == nil
	}))
	for i := 0; i < 3; i++ {
		body := fmt.Sprint("q", i)
		answer := got(ask(body))
		if answer != "re "+body {
			panic(fmt.Errorf("%q is no answer to %q", answer, body))
		}
	}
}
