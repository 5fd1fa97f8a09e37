export const suppressions = {
  title: 'Suppressions',
  lead: 'Emails to these addresses are accepted but not sent.',
  list: 'Suppressed addresses',
  add: 'Add address',
  import: 'Import',
  export: 'Export',
  exportFailed: 'The list could not be exported',
  email: 'Address',
  emailFilter: 'Address contains',
  reason: 'Reason',
  whatReasons: 'About suppression reasons',
  anyReason: 'All reasons',
  since: 'Added',
  until: 'Expires',
  forever: 'Never',
  source: 'Source message',
  sourceLink: 'View',
  actions: '(no header)',
  lift: (email: string) => `Remove ${email} (aria-label; trash icon is right for “Remove”)`,
  lifted: (email: string) => `${email} removed. You can email this address again.`,
  emptyTitle: 'No suppressed addresses',
  emptyHint:
    'Addresses are added automatically after hard bounces, spam complaints and unsubscribes. Migrating? Import your list first.',
  noneTitle: 'No addresses match your filters',
  noneHint: 'Emails to this address are sent normally.',
  clear: 'Clear filters',
};

export const REASONS = ['bounce', 'complaint', 'unsubscribe', 'manual'] as const;

/** In a word, in a few, and what to know before it is lifted. */
export const reasons: Record<(typeof REASONS)[number], { name: string; short: string; meaning: string }> = {
  bounce: {
    ...{ name: 'Bounce', short: 'Hard bounce' },
    meaning:
      'The recipient server reported that the mailbox doesn’t exist. Remove it only if the mailbox exists now.',
  },
  complaint: {
    ...{ name: 'Complaint', short: 'Reported as spam' },
    meaning: 'The recipient marked an email as spam. Remove it only if they ask you to.',
  },
  unsubscribe: {
    ...{ name: 'Unsubscribe', short: 'Unsubscribed' },
    meaning: 'The recipient unsubscribed. Remove it only if they opt in again.',
  },
  manual: {
    ...{ name: 'Manual', short: 'Added manually' },
    meaning: 'Added by a team member or an import.',
  },
};

export const adding = {
  title: 'Add an address',
  submit: 'Add to suppression list',
  hint: 'Emails to this address will no longer be sent.',
  reasonHint: 'Why this address is suppressed.',
  until: 'Until (optional)',
  untilHint: 'Leave empty to suppress permanently.',
  done: (email: string) => `${email} added to the suppression list.`,
};

export const importing = {
  title: 'Import addresses',
  lead: 'CSV with an email column and optional reason and expiresAt columns, or a plain list of addresses.',
  choose: 'Choose a file',
  another: 'Choose another file',
  unreadable: 'The file could not be read',
  nothing: 'No email addresses found in this file.',
  tooLarge: 'File too large (max. 100 MB). Split it into smaller files.',
  firstRows: 'Preview',
  reasonColumn: 'Reason',
  expiryColumn: 'Until',
  emailColumn: 'Address',
  byDefault: 'manual',
  what: (lines: string, parts: string) =>
    `${lines} will be imported. Existing addresses are skipped; invalid lines are listed.`,
  lines: (many: number, shown: string) => (many === 1 ? '1 line' : `${shown} lines`),
  parts: (many: number) => (many === 1 ? '' : `, in ${many} parts`),
  start: 'Import',
  stop: 'Stop',
  progress: 'Import progress',
  imported: (shown: string) => `${shown} imported`,
  skipped: (shown: string) => `${shown} skipped`,
  faulty: (shown: string) => `${shown} invalid`,
  importedHint: 'Now suppressed.',
  skippedHint: 'Already on the list, duplicate or expired.',
  faultyHint: 'Fix these lines and import again. Existing addresses are skipped.',
  unsent: (shown: string) => `${shown} not imported`,
  stopped: 'Import stopped. Import the file again to continue; existing addresses are skipped.',
  broken: 'Import interrupted. Import the file again to continue.',
  line: (number: number, message: string) => `Line ${number}: ${message}`,
  more: (shown: string) => `and ${shown} more`,
  close: 'Close',
};
