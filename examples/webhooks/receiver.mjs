// A receiver of webhooks: consents, checks signatures, refuses what says so, and prints what it takes.
//
//     node examples/webhooks/receiver.mjs 9000 whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
//
// A request with "fail" in its content is answered 500 until the receiver gets POST /mend.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const [port, secret = ''] = process.argv.slice(2)
const toleranceS = 300
let mended = false

function isSigned(fields, body) {
  const stamp = Number(fields['webhook-timestamp'])
  if (!(Math.abs(Date.now() / 1000 - stamp) <= toleranceS)) return false
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  const wanted = Buffer.from(
    'v1,' + createHmac('sha256', key).update(`${fields['webhook-id']}.${stamp}.`).update(body).digest('base64')
  )
  return (fields['webhook-signature'] ?? '').split(' ').some(each => {
    const given = Buffer.from(each)
    return given.length === wanted.length && timingSafeEqual(given, wanted)
  })
}

function judge(request, body) {
  if (request.url === '/mend') {
    mended = true
    return 204
  }
  if (secret && !isSigned(request.headers, body)) return 401
  return body.includes('fail') && !mended ? 500 : 204
}

const server = createServer((request, response) => {
  if (request.method === 'OPTIONS') { // the handshake: whoever asks may send
    response.writeHead(200, { 'WebHook-Allowed-Origin': request.headers['webhook-request-origin'] ?? '*' }).end()
    return
  }
  const parts = []
  request.on('data', part => parts.push(part))
  request.on('end', () => {
    const body = Buffer.concat(parts)
    const status = judge(request, body)
    console.log(`${status} ${request.headers['ce-type'] ?? request.url} ${body}`)
    response.writeHead(status).end()
  })
})
server.listen(Number(port), '127.0.0.1', () => console.log(`listens on ${server.address().port}`))
