/** A notification of an account by email, with a key that prevents duplicates if it is sent again. */
export interface Notice {
  accountId: string;
  key: string;
  subject: string;
  text: string;
}

export type OperatorNotice = Omit<Notice, 'accountId'>;

/** Resolves when the notice is queued, or if there is no recipient. */
export type Notify<N = Notice> = (notice: N) => Promise<void>;
