import { describe, expect } from 'vitest'
import { balance, transfer } from './bank.js'
import { test } from './database.js'

describe.concurrent('a transfer', () => {
  for (const amount of [1, 10, 50, 100]) {
    test(`moves ${amount}`, async ({ db }) => {
      await transfer(db, 'Ada', 'Bo', amount)
      expect(await balance(db, 'Ada')).toBe(100 - amount)
      expect(await balance(db, 'Bo')).toBe(50 + amount)
      const [[row]] = await db.query('SELECT MAX(id) AS id FROM transfer')
      expect(row.id).toBe(1)
    })
  }

  test('of more than there is changes nothing', async ({ db }) => {
    await expect(transfer(db, 'Bo', 'Ada', 51)).rejects.toThrow('Bo has too little')
    expect(await balance(db, 'Bo')).toBe(50)
  })

  test('works in both directions', async ({ db }) => {
    await transfer(db, 'Ada', 'Bo', 100)
    await transfer(db, 'Bo', 'Ada', 150)
    expect(await balance(db, 'Ada')).toBe(150)
  })
})
