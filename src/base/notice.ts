/** Notices: emails in which the service notifies the users of an account, or the operators. */

/** The kinds of notices to an account; each user chooses which to receive. */
export const NOTICE_KINDS = ['sendingProtection', 'quotas', 'domains', 'webhooks'] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** `account`: about the account itself, such as its suspension. Every owner and member receives it; no one can turn it off. */
export type AnyNoticeKind = NoticeKind | 'account';

/** A text, or a time (Unix ms) that is displayed in the time zone of the account, with a text after it. */
export type FactValue = string | { atMs: number; note?: string };

/** A paragraph, a list of facts, or lines that the reader copies. */
export type NoticePart =
  | string
  | { facts: readonly (readonly [label: string, value: FactValue])[] }
  | { code: readonly string[] };

export interface OperatorNotice {
  /** Only one email is sent per key, however often the notice is given. */
  key: string;
  subject: string;
  parts: readonly NoticePart[];
}

export interface Notice extends OperatorNotice {
  accountId: string;
  kind: AnyNoticeKind;
}

/** Resolves when the notice is queued, or if there is no recipient. */
export type Notify<N = Notice> = (notice: N) => Promise<void>;
