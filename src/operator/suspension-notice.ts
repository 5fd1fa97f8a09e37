/** The email to the users of an account that an operator suspended or reactivated. */
import type { Notice } from '../base/notice.ts';

export interface StatusChange {
  accountId: string;
  status: 'active' | 'suspended';
  /** What the operator wrote; null if nothing. */
  reason: string | null;
  /** Unix ms. */
  atMs: number;
}

export function suspensionNotice({ accountId, status, reason, atMs }: StatusChange): Notice {
  const about = { accountId, kind: 'account', key: `${accountId}:${status}:${atMs}` } as const;
  const time = ['Time', { atMs }] as const;
  if (status === 'active')
    return {
      ...about,
      subject: 'Your account is active again',
      parts: ['Your operator reactivated the account. Queued email is being sent.', { facts: [time] }],
    };
  return {
    ...about,
    subject: 'Your account was suspended',
    parts: [
      'Your operator suspended the account. Postrider rejects its API calls with 403 ACCOUNT_SUSPENDED and its SMTP logins with 535. Queued email is held, and is sent when the account is active again. Contact your operator.',
      { facts: [time, ...(reason === null ? [] : [['Reason', reason] as const])] },
    ],
  };
}
