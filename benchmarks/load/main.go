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
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of one run.
type Options struct {
	Mode, Addr, Topic, Group string
	Conns, Window, Size      int
	Count                    int
	Rate                     int
	QoS                      int
	Publishers, Subscribers  int
	Binary                   bool
	Seconds                  float64
	all                      []string
	begun                    time.Time
	ended                    chan struct{}
}

// over tells whether the run ends before its count: its time is up, or standard input has ended.
func (o *Options) over() bool {
	select {
	case <-o.ended:
		return true
	default:
		return o.Seconds > 0 && time.Since(o.begun).Seconds() >= o.Seconds
	}
}

// Result of one worker: answered messages, errors, what was lost, came twice, out of order or too early, and a sample of
// latencies.
type Result struct {
	Messages, Errors                  int
	Lost, Duplicates, Disorder, Early int
	Latencies                         []time.Duration
	Note                              string
	Took                              time.Duration
	Slices                            []Slice
}

func (r *Result) add(other Result) {
	r.Messages += other.Messages
	r.Errors += other.Errors
	r.Lost += other.Lost
	r.Duplicates += other.Duplicates
	r.Disorder += other.Disorder
	r.Early += other.Early
	r.Latencies = append(r.Latencies, other.Latencies...)
	r.Took = max(r.Took, other.Took)
	for at, each := range other.Slices {
		r.slice(at).add(each)
	}
	if other.Note != "" {
		r.Note = other.Note
	}
}

type worker func(o *Options, id, count int) Result

var modes = map[string]worker{
	"create-topic":          createTopic,
	"remoting-stored":       remotingStored,
	"remoting-send":         remotingSend,
	"remoting-timeline":     remotingTimeline,
	"remoting-failover":     remotingFailover,
	"remoting-pull":         remotingPull,
	"remoting-pop":          remotingPop,
	"remoting-e2e":          remotingLatency,
	"remoting-timer":        remotingTimer,
	"remoting-timer-insert": remotingTimerInsert,
	"remoting-transaction":  remotingTransactions,
	"mqtt":                  mqttPair,
	"mqtt-fan-out":          mqttFanOut,
	"mqtt-fan-in":           mqttFanIn,
	"mqtt-connect":          mqttConnects,
	"mqtt-idle":             mqttIdle,
	"coap-post":             coapPost,
	"http-ce":               httpEvents,
	"http2-ce":              http2Events,
	"grpc-send":             grpcSend,
	"grpc-frames":           grpcFrames,
	"grpc-prime":            grpcPrime,
	"grpc-receive":          grpcReceive,
	"grpc-e2e":              grpcLatency,
}

func main() {
	o := &Options{}
	flag.StringVar(&o.Mode, "mode", "", "one of the modes in main.go")
	flag.StringVar(&o.Addr, "addr", "127.0.0.1:10911", "host:port of the server; several, with commas between them, take the connections in turn")
	flag.StringVar(&o.Topic, "topic", "bench", "topic, or first MQTT level")
	flag.StringVar(&o.Group, "group", "bench-group", "consumer group, where one is needed")
	flag.IntVar(&o.Conns, "conns", 8, "connections (MQTT: publisher and subscriber pairs)")
	flag.IntVar(&o.Window, "window", 16, "requests in flight on a connection")
	flag.IntVar(&o.Size, "size", 1024, "body bytes")
	flag.IntVar(&o.Count, "count", 200000, "messages in all")
	flag.IntVar(&o.Rate, "rate", 0, "messages a second, in the e2e and timer modes; MQTT, sends and posts (MQTT fan-out: deliveries): 0 for as fast as the window allows")
	flag.IntVar(&o.QoS, "qos", 1, "MQTT quality of service")
	flag.IntVar(&o.Publishers, "publishers", 1, "MQTT fan-out and fan-in: connections that publish")
	flag.IntVar(&o.Subscribers, "subscribers", 1, "MQTT fan-out and fan-in: connections that subscribe")
	flag.Float64Var(&o.Seconds, "seconds", 0, "remoting-send: end after this time, however many messages are left")
	flag.BoolVar(&o.Binary, "binary", true, "remoting: binary headers (false: JSON)")
	flag.Parse()
	run, ok := modes[o.Mode]
	if !ok {
		fmt.Fprintf(os.Stderr, "load: no mode %q\n", o.Mode)
		os.Exit(2)
	}
	if o.Rate == 0 && (strings.HasSuffix(o.Mode, "e2e") || o.Mode == "remoting-timer") {
		o.Rate = 500
	}
	addrs := strings.Split(o.Addr, ",")
	o.all = addrs
	if o.Mode == "remoting-timeline" {
		o.ended = make(chan struct{})
		go func() {
			hold()
			close(o.ended)
		}()
	}
	results := make([]Result, o.Conns)
	var group sync.WaitGroup
	start := time.Now()
	o.begun = start
	for i := range results {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			own := *o
			own.Addr = addrs[i%len(addrs)]
			results[i] = run(&own, i, o.Count/o.Conns)
		}(i)
	}
	group.Wait()
	report(o, results, time.Since(start))
}

func report(o *Options, results []Result, took time.Duration) {
	total := Result{}
	for _, r := range results {
		total.add(r)
	}
	if total.Took > 0 {
		took = total.Took
	}
	sort.Slice(total.Latencies, func(a, b int) bool { return total.Latencies[a] < total.Latencies[b] })
	at := func(q float64) int64 {
		if len(total.Latencies) == 0 {
			return 0
		}
		return total.Latencies[int(q*float64(len(total.Latencies)-1))].Microseconds()
	}
	figures := map[string]any{
		"mode": o.Mode, "conns": o.Conns, "window": o.Window, "size": o.Size, "messages": total.Messages,
		"errors": total.Errors, "note": total.Note, "seconds": took.Seconds(),
		"per_second": float64(total.Messages) / took.Seconds(), "p50_us": at(0.5), "p99_us": at(0.99), "p999_us": at(0.999),
		"max_us": at(1), "lost": total.Lost, "duplicates": total.Duplicates, "disorder": total.Disorder, "early": total.Early,
		"own_cpu_us": ownCPU().Seconds() * 1e6 / float64(max(1, total.Messages)),
	}
	if total.Slices != nil {
		figures["slices"] = total.Slices
		figures["begun_ms"] = o.begun.UnixMilli()
	}
	line, _ := json.Marshal(figures)
	fmt.Println(string(line))
	if o.Mode == "mqtt-idle" {
		hold()
	}
}

// ownCPU is what the generator itself has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
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
