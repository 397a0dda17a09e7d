package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"

	"headgate/interop/frame"
)

// crash runs two scenes at a time, over a kill of the node.
func crash() {
	must(frame.Play(map[string]frame.Scene{
		"stream":       func(arrived func()) error { return stream(topic+"-stream", arrived) },
		"transactions": func(arrived func()) error { return undecided(topic+"-transactions", arrived) },
	}))
}

func into(name string, seen *bag) { pushedOf(of(name+"-group"), name, seen.take) }

// stream sends and consumes all the time: what was acknowledged is consumed.
func stream(name string, arrived func()) error {
	producer := producing(of(name+"-group"), name)
	var seen bag
	into(name, &seen)
	send := func(body string) error {
		limited, done := context.WithTimeout(context.Background(), 3*time.Second)
		defer done()
		_, err := producer.Send(limited, &client.Message{Topic: name, Body: []byte(body)})
		return err
	}
	return frame.Stream(arrived, 0, send, seen.bodies)
}

// undecided transactions are asked about after the kill, maybe of another producer of the topic; decided ones stay as they were decided.
func undecided(name string, arrived func()) error {
	check := func(message *client.MessageView) client.TransactionResolution {
		switch {
		case !frame.IsBack():
			return client.UNKNOWN
		case string(message.GetBody()) == "body 4":
			return client.COMMIT
		}
		return client.ROLLBACK
	}
	begin := func() client.Producer {
		return producing(of(name+"-group"), name, client.WithTransactionChecker(&client.TransactionChecker{Check: check}))
	}
	decide(begin(), name)
	arrived()
	frame.AwaitBack()
	// After a break this SDK tells its settings again within five minutes only; another producer is asked meanwhile.
	begin()
	var seen bag
	into(name, &seen)
	err := frame.Within("the decided and the asked about", frame.Lateness, func() bool { return len(seen.all()) >= 3 })
	time.Sleep(2 * time.Second)
	bodies := seen.bodies()
	sort.Strings(bodies)
	if got := strings.Join(bodies, ","); got != "body 0,body 1,body 4" {
		return fmt.Errorf("seen %s, %w", got, err)
	}
	return nil
}
