// Runs http-cache-tests against a URL and prints, as JSON: the results by test, and which of the tests are required and
// passed by Squid, Varnish or nginx, whose results come with the package; those of Caddy do not.
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'

const [folder, url] = process.argv.slice(2)
const at = path => new URL(path, pathToFileURL(`${folder}/`))
const { runTests, getResults } = await import(at('client/runner.mjs'))
const { default: tests } = await import(at('tests/index.mjs'))
const { default: fetch } = await import(pathToFileURL(`${folder}/../node-fetch/lib/index.mjs`))

const others = ['squid', 'varnish', 'nginx'].map(name =>
  JSON.parse(fs.readFileSync(at(`results/${name}.json`))))
await runTests(tests, fetch, false, url)
const results = getResults()
const suites = tests.flatMap(suite => suite.tests).filter(test => !test.browser_only)
const required = suites.filter(test => (test.kind ?? 'required') === 'required')
  .map(test => test.id).filter(id => others.some(other => other[id] === true))
const passed = suites.map(test => test.id).filter(id => results[id] === true)
const reason = id => `${id}: ${JSON.stringify(results[id])}`
console.log(JSON.stringify({
  of: suites.length,
  passed: passed.length,
  required: required.length,
  missed: required.filter(id => results[id] !== true).map(reason)
}))
