/** Whether mail leaves the machine: the mode of the key or credential that submitted it. */
export type Mode = 'live' | 'sandbox';

/** The account and the mode whose data is read or changed. */
export interface Owner {
  accountId: string;
  mode: Mode;
}
