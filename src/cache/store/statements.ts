import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { isPurged } from './file.ts';

/** The statements of the thread that writes, for one file. */
export function statementsOf(file: DatabaseSync) {
  const sql = (text: string): StatementSync => file.prepare(text);
  return {
    addReference: sql('insert into refs (id, name, digest, term, rest, read, account) values (?, ?, ?, ?, ?, ?, ?)'),
    dropReference: sql('delete from refs where name = ?'),
    findReference: sql(`select r.digest from refs r where r.name = ? and r.id = ? and not ${isPurged}`),
    moveReference: sql('update refs set id = ? where id = ?'),
    dropReferences: sql('delete from refs where id <= ?'),
    addAnswer: sql('insert into answers (id, digest, record) values (?, ?, ?)'),
    dropAnswer: sql('delete from answers where digest = ?'),
    findAnswer: sql('select id from answers where digest = ?'),
    moveAnswer: sql('update answers set id = ? where digest = ?'),
    dropAnswers: sql('delete from answers where id <= ?'),
    purge: sql('insert into purges (kind, mark, upto) values (?, ?, ?) on conflict do update set upto = excluded.upto'),
    countPurges: sql('select count(*) as count from purges'),
    dropPurges: sql('delete from purges where upto <= ?'),
    /** The last `id` that one step drops, whatever gaps there are. */
    lastOfStep: sql(
      `select min(id) as id from (
        select max(id) as id from (select id from refs order by id limit :rows)
        union all select max(id) from (
          select id, sum(bytes) over (order by id) - bytes as earlier
            from (select id, length(record) as bytes from answers order by id limit :rows)
        ) where earlier < :bytes
      )`,
    ),
    putTerm: sql(
      'insert into terms (ledger, field, value) values (?, ?, ?) on conflict do update set value = excluded.value',
    ),
    dropTerm: sql('delete from terms where ledger = ? and field = ?'),
    beat: sql(
      `insert into beats (ledger, term, run, pid, at_ms) values (?, ?, ?, ?, ?)
        on conflict do update set at_ms = excluded.at_ms`,
    ),
    dropBeats: sql('delete from beats where at_ms < ?'),
    oldest: sql('select min(id) as id from (select min(id) as id from refs union all select min(id) from answers)'),
    // No row may get an `id` that a purge has hidden.
    newest: sql(
      `select max(id) as id from (select max(id) as id from refs union all select max(id) from answers
        union all select max(upto) from purges)`,
    ),
  };
}
