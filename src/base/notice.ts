/** What an account is notified of by mail, and a key that is the same whenever it is sent again, so that it is one mail. */
export interface Notice {
  accountId: string;
  key: string;
  subject: string;
  text: string;
}

/** The same for the operators of the service. */
export type OperatorNotice = Omit<Notice, 'accountId'>;

/** Resolves when the notice is on its way, or when there is nobody to get it. */
export type Notify<N = Notice> = (notice: N) => Promise<void>;
