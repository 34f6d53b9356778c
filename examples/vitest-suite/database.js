// `test` with a fixture `db`: a pool of connections to a database of the test's own, taken from flushlab.
import mysql from 'mysql2/promise'
import { afterAll, test as plain } from 'vitest'

const pools = new Map() // by address: the same servers come again, and their connections are still good
afterAll(() => Promise.all([...pools.values()].map((pool) => pool.end())))

async function ask(method, url) {
  const answer = await fetch(url, { method })
  const body = await answer.json()
  if (!answer.ok) throw new Error(`${method} failed: ${body.error}`)
  return body
}

export const test = plain.extend({
  db: async ({ task }, use) => {
    if (!process.env.FLUSHLAB_POOL_URL) throw new Error(`"${task.name}" needs a database: flushlab test -- npm test`)
    const own = await ask('POST', `${process.env.FLUSHLAB_POOL_URL}/databases`)
    if (!pools.has(own.url)) pools.set(own.url, mysql.createPool(own.url))
    try {
      await use(pools.get(own.url))
    } finally {
      await ask('DELETE', `${own.lease_url}?connections=keep`)
    }
  },
})
