/** Texts of the parts that many pages share. */
export const copying = {
  copy: 'Copy',
  copied: 'Copied',
  language: 'Language',
  asCode: 'API request',
  asCodeTitle: 'API request for this page',
  asCodeHint: 'Set POSTRIDER_KEY to an API key of this account.',
};

export const lists = {
  more: 'Load more',
  loadingMore: 'Loading more',
  end: 'End of list',
  actions: 'Actions',
  csv: 'Export CSV',
  csvMany: (rows: number) => `Exported the first ${rows} rows.`,
  csvFailed: 'Export failed',
};

export const confirming = { close: 'Close', cancel: 'Cancel' };

export const filters = {
  clear: 'Clear filters',
  more: 'More filters',
  moreSet: (count: number) => `More filters (${count})`,
};

export const bulk = {
  label: 'Selected rows',
  all: 'Select all loaded rows',
  one: 'Select row',
  selected: (count: number) => `${count} selected`,
  progress: (finished: number, total: number) => `${finished} of ${total}`,
  /** The action applies to some of the selected rows. */
  some: (name: string, count: number) => `${name} (${count})`,
  failed: (failed: number, total: number, first: string) => `${failed} of ${total} failed. ${first}`,
  clear: 'Clear selection',
};

export const shared = { toLive: 'Switch to Live' };
export const charts = { asTable: 'Show as table', time: 'Time', none: '–' };

export const undoing = { undo: 'Undo', failed: 'Something went wrong' };

export const secrets = {
  once: 'Copy it now. You won’t be able to see it again.',
  done: 'Done',
};

export const preview = {
  title: 'Email preview',
  images: 'Load remote images',
  imagesHint: 'Loading remote images can trigger open tracking.',
  desktop: 'Desktop',
  phone: 'Phone',
  width: 'Width',
};

export const editor = {
  leave: 'Press Esc, then Tab to leave the editor.',
  readOnly: 'Read-only. Press Esc, then Tab to leave.',
};
