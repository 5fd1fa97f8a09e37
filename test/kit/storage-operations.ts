/** Operations for tests of the storage itself: one that writes, one that fails, one that ends its thread. */
import { operation } from '../../src/storage/operation.ts';

export const writeOperation = operation('test.write', 'write', (tx, value: string) =>
  tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', value, value),
);

export const failOperation = operation('test.fail', 'write', (tx, value: string) => {
  tx.run('INSERT INTO meta (key, value) VALUES (?, ?)', value, value);
  throw new Error('an error of this operation');
});

export const endOperation = operation('test.end', 'write', () => process.exit(3));

export const countOperation = operation('test.count', 'read', (tx, prefix: string) =>
  tx.get<{ n: number }>('SELECT count(*) AS n FROM meta WHERE key LIKE ?', `${prefix}%`),
);

/** Counts to a number; the duration grows with it. */
export const longSearchOperation = operation('test.search', 'search', (tx, to: number) =>
  tx.get<{ n: number }>(
    'WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT count(*) AS n FROM n',
    to,
  ),
);
