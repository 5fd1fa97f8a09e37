/** Texts about saved filters. */
import { quoted } from './quoted.ts';

export const savedFilters = {
  title: 'Saved filters',
  none: 'Filter the list, then save the filter here.',
  private: 'Only you',
  shared: 'Everyone in the account',
  save: 'Save current filter…',
  manage: 'Manage saved filters…',
  manageTitle: 'Manage saved filters',
  current: 'Current filter',
  rename: (name: string) => `Rename ${quoted(name)}`,
  delete: (name: string) => `Delete ${quoted(name)}`,
  deleted: (name: string) => `Deleted the filter ${quoted(name)}`,
  noneToManage: 'You have no saved filters for this list.',
  newName: 'New name',
  submitName: 'Rename',
  cancel: 'Cancel',
};

export const savingFilter = {
  title: 'Save filter',
  name: 'Name',
  visibleTo: 'Visible to',
  submit: 'Save',
  done: (name: string) => `Saved the filter ${quoted(name)}`,
};
