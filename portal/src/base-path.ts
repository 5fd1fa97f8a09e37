/**
 * The path of the service's base URL, which the service writes into the page, for URLs outside of the router. Empty without a path, and
 * during development.
 */
const written = document.querySelector<HTMLMetaElement>('meta[name="base-path"]')?.content ?? '';

export const basePath = written.startsWith('/') ? written : '';

/** The URL for API clients. */
export const serviceUrl = `${location.origin}${basePath}`;
