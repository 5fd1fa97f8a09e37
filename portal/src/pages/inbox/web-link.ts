/** Whether an untrusted address may become a link: only http and https URLs. */
export const isWebLink = (link: string): boolean => /^https?:\/\//i.test(link);
