// Events with the JavaScript SDK of CloudEvents: `node events.js send URL` or `node events.js receive`.
//
// send      posts one event in binary and one in structured mode, and prints the two statuses
// receive   listens on loopback; prints its port, then each event as one line of JSON with its data as text
"use strict";

const http = require("node:http");
const { CloudEvent, HTTP } = require("cloudevents");

// The SDK does not percent-encode header fields, so the subject of an event in binary mode has nothing to be encoded.
function made(id, subject) {
  return new CloudEvent({
    id, source: "/javascript", type: "com.example.sent", subject, time: "2026-11-21T03:00:00.000Z", count: 7,
    partitionkey: "p", datacontenttype: "application/json", data: { from: "JavaScript", text: "é" },
  });
}

async function send(url) {
  for (const message of [HTTP.binary(made("js-binary", "a/b")), HTTP.structured(made("js-structured", "größe 100%"))]) {
    const body = typeof message.body === "string" ? message.body : JSON.stringify(message.body);
    const answer = await fetch(url, { method: "POST", headers: message.headers, body });
    console.log(answer.status);
  }
}

function receive() {
  const server = http.createServer((request, response) => {
    const pieces = [];
    request.on("data", (piece) => pieces.push(piece));
    request.on("end", () => {
      try {
        const found = HTTP.toEvent({ headers: request.headers, body: Buffer.concat(pieces).toString() });
        for (const event of Array.isArray(found) ? found : [found]) {
          const { id, source, type, subject, count } = event;
          const data = typeof event.data === "string" ? event.data : JSON.stringify(event.data);
          console.log(JSON.stringify({ id, source, type, subject, count: String(count), data }));
        }
        response.writeHead(204).end();
      } catch (error) {
        console.log(JSON.stringify({ error: String(error) }));
        response.writeHead(400).end();
      }
    });
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
}

if (process.argv[2] === "send") {
  send(process.argv[3]);
} else {
  receive();
}
