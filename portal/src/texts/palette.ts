export const palette = {
  placeholder: 'Search emails, pages, message IDs…',
  nothing: 'No results',
  operator: 'Operator console',
  pages: 'Pages',
  mail: 'Messages',
  noSubject: '(no subject)',
  message: (id: string) => `Open ${id}`,
  all: (text: string) => `Search emails for “${text}”`,
};
