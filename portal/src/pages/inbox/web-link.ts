/** Whether an address that a stranger wrote may be made a link: it leads to a web page and to nothing else. */
export const isWebLink = (link: string): boolean => /^https?:\/\//i.test(link);
