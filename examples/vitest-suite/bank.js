// The code under test: it commits.
export async function transfer(db, payer, payee, amount) {
  const connection = await db.getConnection()
  try {
    await connection.beginTransaction()
    const [taken] = await connection.query(
      'UPDATE account SET balance = balance - ? WHERE owner = ? AND balance >= ?', [amount, payer, amount])
    if (taken.affectedRows === 0) throw new Error(`${payer} has too little`)
    await connection.query('UPDATE account SET balance = balance + ? WHERE owner = ?', [amount, payee])
    await connection.query(
      'INSERT INTO transfer (payer, payee, amount)' +
        ' SELECT a.id, b.id, ? FROM account a, account b WHERE a.owner = ? AND b.owner = ?', [amount, payer, payee])
    await connection.commit()
  } catch (error) {
    await connection.rollback()
    throw error
  } finally {
    connection.release()
  }
}

export async function balance(db, owner) {
  const [[row]] = await db.query('SELECT balance FROM account WHERE owner = ?', [owner])
  return Number(row.balance)
}
