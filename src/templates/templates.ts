/**
 * Templates: the Liquid language in subject, html and text, with our rules on escaping, missing values and limits.
 */
export { UNSUBSCRIBE_VARIABLE } from './output.ts';
export { isTemplate } from './parse.ts';
export { createRender, missingFailure, type Rendered, type ToRender } from './render.ts';
