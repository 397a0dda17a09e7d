// MQTT.js with SCRAM-SHA-256 by Node's own cryptography. Arguments: URL, user, password.
// Prints `OK` after a proof of both sides, a message, and a second proof on the same connection; `REFUSED <code>` otherwise.
import mqtt from "mqtt";
import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";

const [url, user, password] = process.argv.slice(2);
const method = "SCRAM-SHA-256";
const hmac = (key, text) => createHmac("sha256", key).update(text).digest();

class Proof {
  constructor() {
    this.bare = `n=${user},r=${randomBytes(18).toString("base64")}`;
  }

  first() {
    return Buffer.from(`n,,${this.bare}`);
  }

  final(challenge) {
    const text = challenge.toString();
    const said = Object.fromEntries(text.split(",").map((part) => [part[0], part.slice(2)]));
    const salted = pbkdf2Sync(password, Buffer.from(said.s, "base64"), Number(said.i), 32, "sha256");
    const clientKey = hmac(salted, "Client Key");
    const without = `c=biws,r=${said.r}`;
    const message = `${this.bare},${text},${without}`;
    const mask = hmac(createHash("sha256").update(clientKey).digest(), message);
    this.signature = `v=${hmac(hmac(salted, "Server Key"), message).toString("base64")}`;
    return Buffer.from(`${without},p=${Buffer.from(clientKey.map((byte, at) => byte ^ mask[at])).toString("base64")}`);
  }
}

let proof = new Proof();
const client = mqtt.connect(url, {
  protocolVersion: 5, reconnectPeriod: 0, clientId: "js-scram", rejectUnauthorized: false,
  properties: { authenticationMethod: method, authenticationData: proof.first() },
});
let renewed;
const again = new Promise((resolve) => { renewed = resolve; });
client.handleAuth = (packet, callback) => {
  const data = packet.properties.authenticationData;
  if (packet.reasonCode === 0) {
    renewed(data.toString());
    callback();
    return;
  }
  const properties = { authenticationMethod: method, authenticationData: proof.final(data) };
  callback(undefined, { cmd: "auth", reasonCode: 0x18, properties });
};
client.on("error", (error) => {
  console.log(`REFUSED ${error.code}`);
  process.exit(0);
});
const connack = await new Promise((resolve) => client.on("connect", resolve));
if (connack.properties.authenticationData.toString() !== proof.signature) throw new Error("the server has not proven itself");
await client.publishAsync("scram/x", "hello", { qos: 1 });
proof = new Proof();
client._sendPacket({ cmd: "auth", reasonCode: 0x19, properties: { authenticationMethod: method, authenticationData: proof.first() } });
if ((await again) !== proof.signature) throw new Error("the server has not proven itself anew");
await client.publishAsync("scram/x", "again", { qos: 1 });
console.log("OK");
await client.endAsync();
