// The origin of http-cache-tests on a port of its own on the loopback device. Its first line of output is that port.
import http from 'node:http'
import { pathToFileURL } from 'node:url'

const folder = pathToFileURL(`${process.argv[2]}/server/`)
const handler = async name => (await import(new URL(`handle-${name}.mjs`, folder))).default
const [config, state, test] = await Promise.all(['config', 'state', 'test'].map(handler))

const server = http.createServer((request, response) => {
  const [kind, ...rest] = new URL(request.url, 'http://localhost').pathname.split('/').slice(1)
  const handle = { config, state, test }[kind]
  if (handle) return handle(rest, request, response)
  response.writeHead(404).end()
})
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
// The test holds the other end.
process.stdin.resume().on('end', () => process.exit())
