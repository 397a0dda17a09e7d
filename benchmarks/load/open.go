package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"time"
)

// open sends `count` requests of one connection at its share of o.Rate, whatever comes back: the load of senders who do not wait.
// `answer` reads one answer and says whether the server took the message; it fails when nothing comes for `silence`.
// Result.Took is the time until the last answer, so that what was lost on the way does not count as time.
func open(o *Options, conn net.Conn, count int, request func(i int) []byte, answer func() (bool, error)) Result {
	begin := time.Now()
	gap := time.Second * time.Duration(o.Conns) / time.Duration(o.Rate)
	go func() {
		for sent := 0; sent < count && !o.over(); {
			if wait := time.Until(begin.Add(gap * time.Duration(sent))); wait > 0 {
				time.Sleep(wait)
			}
			for ; sent < count && time.Since(begin) >= gap*time.Duration(sent); sent++ {
				if _, err := conn.Write(request(sent)); err != nil {
					return
				}
			}
		}
	}()
	result := Result{}
	for answered := 0; answered < count && !o.over(); answered++ {
		conn.SetReadDeadline(time.Now().Add(silence))
		taken, err := answer()
		if err != nil {
			result.Lost = count - answered
			break
		}
		if taken {
			result.Messages++
			result.Took = time.Since(begin)
			if o.ended != nil {
				result.note(o, begin.Add(gap*time.Duration(answered)))
			}
		} else {
			result.Errors++
		}
	}
	return result
}

// openRemoting pipelines SEND requests; a refusal is any other code than SUCCESS.
func openRemoting(o *Options, conn net.Conn, count int, frame []byte) Result {
	r := bufio.NewReaderSize(conn, 1<<16)
	scratch := make([]byte, 4096)
	return open(o, conn, count, func(int) []byte { return frame }, func() (bool, error) {
		found, err := readReply(r, scratch, false)
		return found.code == 0, err
	})
}

// openHTTP pipelines POST requests on a connection.
func openHTTP(o *Options, conn net.Conn, count int, frame []byte) Result {
	r := bufio.NewReader(conn)
	return open(o, conn, count, func(int) []byte { return frame }, func() (bool, error) {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return false, err
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		return response.StatusCode/100 == 2, nil
	})
}

// openCoAP sends confirmable POST requests once each; those that the network or the node drops are lost.
func openCoAP(o *Options, conn net.Conn, count int, out []byte, id int) Result {
	in := make([]byte, 2048)
	return open(o, conn, count, func(i int) []byte {
		next := bytes.Clone(out)
		binary.BigEndian.PutUint16(next[2:], uint16(id*7919+i))
		next[5] = byte(i)
		return next
	}, func() (bool, error) {
		n, err := conn.Read(in)
		return n >= 4 && in[1]>>5 == 2, err
	})
}
