/**
 * The syntax of the search field: `status:bounced tag:invoice refund` filters by status and tag, and searches for the remaining text. Values
 * with spaces are in double quotes. A name that is not a filter, or a status that does not exist, is part of the text.
 */
export const STATUSES = [
  ...(['scheduled', 'queued', 'sending', 'delayed', 'delivered'] as const),
  ...(['bounced', 'complained', 'suppressed', 'cancelled'] as const),
];

type Status = (typeof STATUSES)[number];

export interface SearchTerms {
  /** The text without the filters; empty if there is none. */
  text: string;
  from?: string;
  to?: string;
  subject?: string;
  status?: Status;
  tags: string[];
}

const TERM = /(?<![^\s])(from|to|subject|tag|status):(?:"([^"]*)"|([^\s"]+))(?=\s|$)/gi;

/** American spelling is accepted. */
const statusNamed = (value: string): Status | undefined => {
  const name = value.toLowerCase() === 'canceled' ? 'cancelled' : value.toLowerCase();
  return STATUSES.find((status) => status === name);
};

/** Reads the filters in the text of the search field; the last of several values counts, except for tags, which must all match. */
export function searchTerms(typed: string): SearchTerms {
  const terms: SearchTerms = { text: '', tags: [] };
  const text = typed.replace(TERM, (term: string, name: string, quoted?: string, plain?: string) => {
    const value = quoted ?? plain ?? '';
    if (value === '') return term;
    const filter = name.toLowerCase() as 'from' | 'to' | 'subject' | 'tag' | 'status';
    if (filter === 'tag') terms.tags.push(value);
    else if (filter === 'status') {
      const status = statusNamed(value);
      if (status === undefined) return term;
      terms.status = status;
    } else terms[filter] = value;
    return '';
  });
  terms.text = text.replace(/\s+/g, ' ').trim();
  return terms;
}
