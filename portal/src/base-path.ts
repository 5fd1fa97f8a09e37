/**
 * Where the service is: the path of its base URL, which the service writes into the page, and which addresses outside of the router
 * need. Empty without one, and while the portal is developed.
 */
const written = document.querySelector<HTMLMetaElement>('meta[name="base-path"]')?.content ?? '';

export const basePath = written.startsWith('/') ? written : '';

/** What a client of the API is given as its URL. */
export const serviceUrl = `${location.origin}${basePath}`;
