/** Facts about the database as a whole: small texts under a key, written once. */
import { operation } from './operation.ts';

export const metaOperation = operation('meta.get', 'read', async (tx, key: string): Promise<string | null> => {
  const row = await tx.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', key);
  return row?.value ?? null;
});

/** Sets the value unless there is one; answers the one that stands. */
export const metaOnceOperation = operation(
  'meta.setOnce',
  'write',
  async (tx, entry: { key: string; value: string }): Promise<string> => {
    await tx.run('INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING', entry.key, entry.value);
    const row = await tx.get<{ value: string }>('SELECT value FROM meta WHERE key = ?', entry.key);
    return (row as { value: string }).value;
  },
);
