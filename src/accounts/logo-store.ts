/** Stores the logos of accounts, one for each; the audit log records their type and time, and not the image. */
import { change } from '../audit/audit.ts';
import { operation } from '../storage/operation.ts';
import type { LogoType } from './logo.ts';

export interface LogoSummary {
  contentType: LogoType;
  bytes: number;
  /** Unix ms. */
  updatedAt: number;
}

export interface Logo extends Omit<LogoSummary, 'bytes'> {
  content: Uint8Array;
}

const TRAIL = { table: 'account_logo', shows: ['content_type', 'updated_at'] };

export const logoOperation = operation(
  'accounts.logo',
  'read',
  async (tx, accountId: string): Promise<Logo | null> =>
    (await tx.get<Logo>(
      'SELECT content_type AS "contentType", content, updated_at AS "updatedAt" FROM account_logo WHERE account_id = ?',
      accountId,
    )) ?? null,
);

export const logoSummaryOperation = operation(
  'accounts.logoSummary',
  'read',
  async (tx, accountId: string): Promise<LogoSummary | null> =>
    (await tx.get<LogoSummary>(
      'SELECT content_type AS "contentType", length(content) AS bytes, updated_at AS "updatedAt" FROM account_logo WHERE account_id = ?',
      accountId,
    )) ?? null,
);

export const setLogoOperation = change(
  'accounts.setLogo',
  async (tx, { accountId, contentType, content, updatedAt }: Logo & { accountId: string }): Promise<void> => {
    await tx.run(
      `INSERT INTO account_logo (account_id, content_type, content, updated_at) VALUES (?, ?, ?, ?)
       ON CONFLICT (account_id) DO UPDATE SET content_type = excluded.content_type, content = excluded.content,
         updated_at = excluded.updated_at`,
      accountId,
      contentType,
      content,
      updatedAt,
    );
  },
  { ...TRAIL, action: 'account.set-logo', where: ({ accountId }) => ({ account_id: accountId }) },
);

/** Returns false if there is none. */
export const removeLogoOperation = change(
  'accounts.removeLogo',
  async (tx, { accountId }: { accountId: string }): Promise<boolean> =>
    (await tx.run('DELETE FROM account_logo WHERE account_id = ?', accountId)) === 1,
  { ...TRAIL, action: 'account.remove-logo', where: ({ accountId }) => ({ account_id: accountId }) },
);
