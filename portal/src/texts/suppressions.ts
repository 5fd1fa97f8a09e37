export const suppressions = {
  title: 'Suppressions',
  lead: 'Addresses that get no mail. A send to one is accepted, and reported as suppressed.',
  list: 'Suppressed addresses',
  add: 'Add an address',
  import: 'Import',
  export: 'Export',
  exportFailed: 'The list could not be exported',
  email: 'Address',
  emailFilter: 'Address contains',
  reason: 'Reason',
  whatReasons: 'What the reasons mean',
  anyReason: 'Any reason',
  since: 'Since',
  until: 'Until',
  forever: 'No end',
  source: 'Message',
  sourceLink: 'Show it',
  actions: 'Lift',
  lift: (email: string) => `Lift the suppression of ${email}`,
  lifted: (email: string) => `Mail to ${email} is sent again.`,
  emptyTitle: 'Nobody is suppressed',
  emptyHint:
    'Addresses come here by themselves when a mailbox does not exist, a recipient complains or unsubscribes. Coming from another service? Import its list first.',
  noneTitle: 'No such address is suppressed',
  noneHint: 'Mail to it is sent.',
  clear: 'Show all',
};

export const REASONS = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

/** In a word, in a few, and what to know before it is lifted. */
export const reasons: Record<(typeof REASONS)[number], { name: string; short: string; meaning: string }> = {
  bounce: {
    ...{ name: 'Bounce', short: 'No such mailbox' },
    meaning:
      'The recipient’s server said for good that there is no such mailbox. Lift it if the mailbox exists by now.',
  },
  complaint: {
    ...{ name: 'Complaint', short: 'Reported as spam' },
    meaning: 'The recipient reported a mail as spam. Lift it only if they ask for mail.',
  },
  unsubscribe: {
    ...{ name: 'Unsubscribe', short: 'Wants no more mail' },
    meaning: 'The recipient unsubscribed. Lift it only if they ask for mail.',
  },
  manual: {
    ...{ name: 'Manual', short: 'Added by hand' },
    meaning: 'Somebody of the account put it here, by hand or by an import.',
  },
};

export const adding = {
  title: 'Add an address',
  submit: 'Suppress the address',
  hint: 'No mail is sent to it from now on.',
  reasonHint: 'Why it gets no mail.',
  until: 'Until (optional)',
  untilHint: 'Without a day it holds until somebody lifts it.',
  done: (email: string) => `${email} gets no mail from now on.`,
};

export const importing = {
  title: 'Import addresses',
  lead: 'A CSV file with a column email and, if wanted, reason (bounce, complaint, unsubscribe or manual) and expiresAt. A plain list of addresses will do.',
  choose: 'Choose a file',
  another: 'Choose another file',
  unreadable: 'The file could not be read',
  nothing: 'There is no line with an address in this file.',
  tooLarge: 'The file is above 100 MB. Cut it into smaller ones.',
  firstRows: 'The first rows',
  reasonColumn: 'Reason',
  expiryColumn: 'Until',
  emailColumn: 'Address',
  byDefault: 'manual',
  what: (lines: string, parts: string) =>
    `${lines} will be imported${parts}. They get no mail from then on. Addresses that are on the list already are skipped, and faulty lines are left out and listed.`,
  lines: (many: number, shown: string) => (many === 1 ? '1 line' : `${shown} lines`),
  parts: (many: number) => (many === 1 ? '' : `, in ${many} parts`),
  start: 'Import',
  stop: 'Stop',
  progress: 'Imported so far',
  imported: (shown: string) => `${shown} imported`,
  skipped: (shown: string) => `${shown} skipped`,
  faulty: (shown: string) => `${shown} left out`,
  importedHint: 'They get no mail from now on.',
  skippedHint: 'On the list already, more than once in the file, or expired.',
  faultyHint: 'Correct these lines and import the file again: what is on the list is skipped.',
  unsent: (shown: string) => `${shown} not imported`,
  stopped: 'You stopped. Import the file again to go on: what is on the list is skipped.',
  broken: 'It ended before the last line. Import the file again to go on: what is on the list is skipped.',
  line: (number: number, message: string) => `Line ${number}: ${message}`,
  more: (shown: string) => `and ${shown} more`,
  close: 'Close',
};
