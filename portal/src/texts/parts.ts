/** What is read in the parts that many pages are made of. */
export const copying = {
  copy: 'Copy',
  copied: 'Copied',
  language: 'Language',
  asCode: 'As code',
  asCodeTitle: 'The call behind this page',
  asCodeHint: 'With a key of the account in POSTRIDER_KEY.',
};

export const lists = {
  more: 'Show more',
  loadingMore: 'Loading more',
  end: 'That is all.',
  csv: 'CSV',
  csvMany: (rows: number) => `The file has the first ${rows} rows.`,
  csvFailed: 'The file could not be made',
};

export const shared = { toLive: 'Switch to Live' };
export const charts = { asTable: 'Show as table', time: 'Time', none: '–' };

export const undoing = { undo: 'Undo', failed: 'That did not work' };

export const secrets = {
  once: 'Shown once. Keep it in a safe place now: nobody can show it again.',
  done: 'I have kept it',
};

export const preview = {
  title: 'Preview of the mail',
  images: 'Show remote images',
  imagesHint: 'Remote images tell their sender that the mail was looked at.',
  desktop: 'Desktop',
  phone: 'Phone',
  width: 'Width',
};

export const editor = {
  leave: 'Tab indents. To leave with the keyboard, press Escape and then Tab.',
  readOnly: 'Read only. To leave with the keyboard, press Escape and then Tab.',
};
