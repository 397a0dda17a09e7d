package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"

	"headgate/interop/frame"
)

// transact commits two messages, rolls two back, and leaves two to be asked about, of which it commits one.
func transact() {
	var lock sync.Mutex
	asked := map[string]bool{}
	check := func(message *client.MessageView) client.TransactionResolution {
		lock.Lock()
		defer lock.Unlock()
		asked[string(message.GetBody())] = true
		if string(message.GetBody()) == "body 4" {
			return client.COMMIT
		}
		return client.ROLLBACK
	}
	decide(producing(configuration(), topic, client.WithTransactionChecker(&client.TransactionChecker{Check: check})), topic)
	var seen bag
	pushed(seen.take)
	err := frame.Within("the decided and the asked about", 100*time.Second, func() bool {
		lock.Lock()
		defer lock.Unlock()
		return len(asked) >= 2 && len(seen.all()) >= 3
	})
	time.Sleep(time.Second)
	bodies := seen.bodies()
	sort.Strings(bodies)
	if got := strings.Join(bodies, ","); got != "body 0,body 1,body 4" || fmt.Sprint(asked) != "map[body 4:true body 5:true]" {
		panic(fmt.Errorf("seen %s, asked %v, %w", got, asked, err))
	}
}

// decide commits two messages, rolls two back, and leaves two undecided.
func decide(producer client.Producer, name string) {
	for number := 0; number < 6; number++ {
		message := &client.Message{Topic: name, Body: []byte(fmt.Sprint("body ", number))}
		transaction := producer.BeginTransaction()
		got(producer.SendWithTransaction(context.Background(), message, transaction))
		switch number / 2 {
		case 0:
			must(transaction.Commit())
		case 1:
			must(transaction.RollBack())
		}
	}
}
