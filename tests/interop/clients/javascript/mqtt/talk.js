// MQTT.js as a user writes it. Arguments: URL, protocol version. Prints `OK <messages>` or fails.
import mqtt from "mqtt";

const [url, version] = process.argv.slice(2);
const options = { protocolVersion: Number(version), rejectUnauthorized: false, reconnectPeriod: 0, connectTimeout: 10000 };
const topic = `js${version}/room`;
const count = 30;

const sizes = [0, 1, 125, 126, 65535, 65536, 300000];
const payload = (number) => Buffer.alloc(sizes[number % sizes.length], number);

const listener = await mqtt.connectAsync(url, { ...options, clientId: `js-listener-${version}-${Date.now()}` });
const sender = await mqtt.connectAsync(url, { ...options, clientId: `js-sender-${version}-${Date.now()}` });
const done = new Promise((resolve, reject) => {
  // QoS 2 is handed over with PUBREL, so QoS 1 may overtake it: each topic has one QoS, and order within it.
  const seen = [0, 0];
  setTimeout(() => reject(new Error(`${seen} of ${count} messages came`)), 20000).unref();
  listener.on("message", (path, body) => {
    const qos = Number(path.slice(-1));
    const number = 2 * seen[qos - 1] + qos - 1;
    seen[qos - 1] += 1;
    if (!body.equals(payload(number))) reject(new Error(`message ${number} is not what was sent`));
    if (number >= count - 2 && seen[0] + seen[1] === count) resolve(count);
  });
});
const granted = await listener.subscribeAsync(`${topic}/#`, { qos: 2 });
if (granted[0].qos !== 2) throw new Error(`granted ${granted[0].qos}`);
for (let number = 0; number < count; number += 1) {
  const qos = 1 + (number % 2);
  await sender.publishAsync(`${topic}/${qos}`, payload(number), { qos });
}
console.log(`OK ${await done}`);
await Promise.all([listener.endAsync(), sender.endAsync()]);
