// Command load is the generator of the benchmarks: one mode a protocol shape, standard library only.
//
//	load -mode remoting-send -addr 127.0.0.1:10911 -conns 8 -window 16 -count 400000 -size 1024
//
// It prints one JSON line: messages, seconds, messages a second, latency percentiles in microseconds, errors.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
)

// Options of one run.
type Options struct {
	Mode, Addr, Topic, Group string
	Conns, Window, Size      int
	Count                    int
	Rate                     int
	Binary                   bool
}

// Result of one worker: answered messages, errors, and a sample of latencies.
type Result struct {
	Messages, Errors int
	Latencies        []time.Duration
	Note             string
}

type worker func(o *Options, id, count int) Result

var modes = map[string]worker{
	"create-topic":  createTopic,
	"remoting-send": remotingSend,
	"remoting-pull": remotingPull,
	"remoting-pop":  remotingPop,
	"remoting-e2e":  remotingLatency,
	"mqtt":          mqttPair,
	"mqtt-e2e":      mqttLatency,
	"coap-post":     coapPost,
	"http-ce":       httpEvents,
	"grpc-send":     grpcSend,
	"grpc-prime":    grpcPrime,
	"grpc-receive":  grpcReceive,
	"grpc-e2e":      grpcLatency,
}

func main() {
	o := &Options{}
	flag.StringVar(&o.Mode, "mode", "", "one of the modes in main.go")
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:10911", "host:port of the server")
	flag.StringVar(&o.Topic, "topic", "bench", "topic, or first MQTT level")
	flag.StringVar(&o.Group, "group", "bench-group", "consumer group, where one is needed")
	flag.IntVar(&o.Conns, "conns", 8, "connections (MQTT: publisher and subscriber pairs)")
	flag.IntVar(&o.Window, "window", 16, "requests in flight on a connection")
	flag.IntVar(&o.Size, "size", 1024, "body bytes")
	flag.IntVar(&o.Count, "count", 200000, "messages in all")
	flag.IntVar(&o.Rate, "rate", 500, "messages a second, in the e2e modes")
	flag.BoolVar(&o.Binary, "binary", true, "remoting: binary headers (false: JSON)")
	flag.Parse()
	run, ok := modes[o.Mode]
	if !ok {
		fmt.Fprintf(os.Stderr, "load: no mode %q\n", o.Mode)
		os.Exit(2)
	}
	results := make([]Result, o.Conns)
	var group sync.WaitGroup
	start := time.Now()
	for i := range results {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			results[i] = run(o, i, o.Count/o.Conns)
		}(i)
	}
	group.Wait()
	report(o, results, time.Since(start))
}

func report(o *Options, results []Result, took time.Duration) {
	total := Result{}
	for _, r := range results {
		total.Messages += r.Messages
		total.Errors += r.Errors
		total.Latencies = append(total.Latencies, r.Latencies...)
		if r.Note != "" {
			total.Note = r.Note
		}
	}
	sort.Slice(total.Latencies, func(a, b int) bool { return total.Latencies[a] < total.Latencies[b] })
	at := func(q float64) int64 {
		if len(total.Latencies) == 0 {
			return 0
		}
		return total.Latencies[int(q*float64(len(total.Latencies)-1))].Microseconds()
	}
	line, _ := json.Marshal(map[string]any{
		"mode": o.Mode, "conns": o.Conns, "window": o.Window, "size": o.Size, "messages": total.Messages,
		"errors": total.Errors, "note": total.Note, "seconds": took.Seconds(),
		"per_second": float64(total.Messages) / took.Seconds(), "p50_us": at(0.5), "p99_us": at(0.99),
	})
	fmt.Println(string(line))
}

// body makes n bytes that do not compress to nothing.
func body(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte('a' + x%26)
	}
	return b
}
