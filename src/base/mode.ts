/** Whether mail leaves the machine: the mode of the key or credential that submitted it. */
export type Mode = 'live' | 'sandbox';

/** Whose data is read or changed: that of an account, in one mode. */
export interface Owner {
  accountId: string;
  mode: Mode;
}
