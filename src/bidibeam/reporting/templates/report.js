for (const browser of document.querySelectorAll(".browser")) {
  const documents = JSON.parse(browser.querySelector("script").textContent);
  const chooser = browser.querySelector("select");
  const show = (index) => {
    chooser.selectedIndex = (index + documents.length) % documents.length;
    showExplanation(browser.querySelector(".example"), documents[chooser.selectedIndex], {
      pair: documents[chooser.selectedIndex].pair,
    });
  };
  chooser.addEventListener("change", () => show(chooser.selectedIndex));
  for (const button of browser.querySelectorAll("button[data-step]")) {
    button.addEventListener("click", () => show(chooser.selectedIndex + Number(button.dataset.step)));
  }
  browser.querySelector(".buttons").hidden = false;
  show(0);
}
window.addEventListener("resize", showOverflow);
