/** Whether mail leaves the machine: the mode of the key or credential that submitted it. */
export type Mode = 'live' | 'sandbox';
