// The list of versions in the sidebar. A page that was opened as a file cannot fetch another, so `versions.js`, beside the
// folders of the versions, is a script: window.FEEDPIPE_VERSIONS = [{"name": "0.2", "pages": ["index.html", ...]}, ...],
// the newest first.
(() => {
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const here = root.pathname.split("/").at(-2);
  const page = location.pathname.slice(root.pathname.length) || "index.html";
  const address = (version) => {
    const target = version.pages.includes(page) ? page : "index.html";
    return new URL(`../${version.name}/${target}`, root).href;
  };

  const list = document.createElement("script");
  list.src = new URL("../versions.js", root);
  list.onload = () => {
    const versions = window.FEEDPIPE_VERSIONS;
    const select = document.createElement("select");
    select.className = "fp-versions";
    select.setAttribute("aria-label", "Version");
    for (const version of versions) {
      select.add(new Option(version.name, address(version), false, version.name === here));
    }
    select.onchange = () => location.assign(select.value);
    document.querySelector(".sidebar-search-container").after(select);

    if (versions[0].name !== here) {
      const line = document.createElement("p");
      line.className = "fp-old";
      line.innerHTML = `This is version ${here}. <a href="${address(versions[0])}">Go to ${versions[0].name}</a>.`;
      document.querySelector("article").prepend(line);
    }
  };
  document.head.append(list);
})();
